# Fills $FOLDER with the files of $REPOSITORY at $REVISION, all of them right or none: vLLM never sees a part.
# $SUMS is a list as sha256sum writes it; arguments are patterns of files to leave out.
set -eu

if [ "$(cat "$FOLDER/.verified" 2>/dev/null)" = "$WISH" ]; then
  echo "$FOLDER is verified already"
  exit 0
fi
if [ -e "$FOLDER" ]; then
  echo "$FOLDER holds other files: name another model.path, so that what runs keeps its own" >&2
  exit 1
fi

part="$FOLDER.part-$WISH"
mkdir -p "$part"
for pattern in "$@"; do
  set -- "$@" --exclude "$pattern"
  shift
done
hf download "$REPOSITORY" --revision "$REVISION" --local-dir "$part" "$@"

cd "$part"
if ! sha256sum --strict --check --quiet "$SUMS" > .failed; then
  # Only the wrong ones are fetched again.
  sed -n 's/: FAILED.*//p' .failed | while read -r file; do
    echo "$file is not what its checksum says" >&2
    rm -f "$file"
  done
  exit 1
fi
rm -rf .cache .failed
# What has no checksum is not loaded.
find . -type f | sed 's|^\./||' | while read -r file; do
  awk -v wanted="$file" 'substr($0, 67) == wanted { found = 1 } END { exit !found }' "$SUMS" || rm -f "$file"
done
printf '%s' "$WISH" > .verified
mv "$part" "$FOLDER"
echo "$FOLDER is verified"
