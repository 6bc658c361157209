"""From the bytes of a file to blocks of text. All of it runs in the parsing process."""
