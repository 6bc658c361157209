"""What the server does for ValkeyStore: each batch is one script, and so one round trip in which nothing changes."""

# KEYS: state of the tenant, then entry and lease of each call.
#
# state     hash: seq, the number of the last invalidation; floor: what is older is forgotten, whatever it depends on;
#           and for each scope (see generations.py) the number of the last invalidation that touched it.
# Numbers start from the clock, in µs: they never come again after the state was lost, so what is older than the loss is
# below the new floor.
# A state that another run of the server wrote counts as lost: of what it held last, a restart or a failover may have
# lost an invalidation. A server that does not let its user ask INFO is one run for ever.
#
# Time comes from the server: clocks of replicas differ. Keys of a wrong type count as missing.
_SHARED = """
local time = redis.call('TIME')
local now = string.format('%016.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local seq, floor
local function state(lifetime)
  local found, info = redis.pcall('HMGET', KEYS[1], 'seq', 'floor', 'run'), redis.pcall('INFO', 'server')
  local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or 'unknown'
  seq, floor = tonumber(found[1] or ''), tonumber(found[2] or '')
  if seq and floor and found[3] == run then return end
  local first = time[1] .. string.format('%06d', time[2])
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'seq', first, 'floor', first, 'run', run)
  redis.call('PEXPIRE', KEYS[1], lifetime)
  seq, floor = tonumber(first), tonumber(first)
end
local function text(key)
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then return false end
  return found
end
local function unchanged(snapshot, scopes)
  if snapshot == seq then return true end
  if snapshot < floor or snapshot > seq then return false end
  local names = {}
  for name in string.gmatch(scopes, '[^\\n]+') do names[#names + 1] = name end
  if #names == 0 or #names > 1000 then return false end
  for _, changed in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    if changed and tonumber(changed) > snapshot then return false end
  end
  return true
end
"""

# ARGV: lifetime of the state in ms, milliseconds of a lease or 0, and a token; with its position it is each call's own.
# Answers now, seq, and for each call the entry, or 1 if there is an old one, or 0; then 1 if it is leased, else 0.
GET = (
    _SHARED
    + """
state(ARGV[1])
local answer = {now, string.format('%.0f', seq)}
local function lease(key, token)
  if ARGV[2] == '0' then return 0 end
  local holder = text(key)
  if holder and holder ~= token then return 0 end
  local taken = redis.pcall('SET', key, token, 'PX', ARGV[2])
  -- A full server stores no lease; whoever asks makes the result all the same. Other errors are the caller's to see.
  if taken.err and string.sub(taken.err, 1, 3) ~= 'OOM' then redis.call('SET', key, token, 'PX', ARGV[2]) end
  return 1
end
for i = 2, #KEYS, 2 do
  local found, at = text(KEYS[i]), #answer + 1
  local snapshot = found and string.sub(found, 1, 4) == 'SBC2' and tonumber(string.sub(found, 5, 20))
  local length = snapshot and tonumber(string.sub(found, 37, 44))
  if length and unchanged(snapshot, string.sub(found, 54, 53 + length)) then
    answer[at], answer[at + 1] = found, 0
  else
    answer[at], answer[at + 1] = length and 1 or 0, lease(KEYS[i + 1], ARGV[3] .. i / 2 - 1)
  end
end
return answer
"""
)

# ARGV: lifetime of the state in ms, then for each result: ms to live or 0, snapshot or 0, token or '', 1 if it counts
# only while the lease is held or 0, scopes, and the entry from its lengths on.
# Answers for each: 0 not stored, 1 stored, 2 outdated, 3 the server is full.
PUT = (
    _SHARED
    + """
state(ARGV[1])
local answer = {}
local function put(key, held, ttl, snapshot, scopes, rest)
  if ttl == '0' then return 0 end
  if not held then return 2 end
  snapshot = snapshot == '0' and seq or tonumber(snapshot)
  if not unchanged(snapshot, scopes) then return 2 end
  local entry = 'SBC2' .. string.format('%016.0f', snapshot) .. now .. rest
  local stored = redis.pcall('SET', key, entry, 'PX', ttl)
  if not stored.err then return 1 end
  if string.sub(stored.err, 1, 3) ~= 'OOM' then redis.call('SET', key, entry, 'PX', ttl) end
  return 3
end
for i = 2, #KEYS, 2 do
  local at = (i - 2) / 2 * 6 + 2
  local held = ARGV[at + 2] ~= '' and text(KEYS[i + 1]) == ARGV[at + 2]
  answer[#answer + 1] =
    put(KEYS[i], held or ARGV[at + 3] == '0', ARGV[at], ARGV[at + 1], ARGV[at + 4], ARGV[at + 5])
  if held then redis.call('DEL', KEYS[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return answer
"""
)

# ARGV: lifetime of the state in ms, most scopes, then the scopes that are touched. Answers the number of this one: from
# the clock, so that a server that lost the last ones in a failover does not give them again.
# A full server still forgets: it refuses only scripts whose first write needs memory, and PEXPIRE needs none.
# Of too many scopes the older half is dropped and the floor raised above it: more is forgotten, never less.
INVALIDATE = (
    _SHARED
    + """
state(ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local next = string.format('%.0f', math.max(seq + 1, time[1] * 1000000 + time[2]))
redis.call('HSET', KEYS[1], 'seq', next)
for i = 3, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], next) end
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[2]) then
  local all, numbers = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #all, 2 do
    if all[i] ~= 'seq' and all[i] ~= 'floor' and all[i] ~= 'run' then numbers[#numbers + 1] = tonumber(all[i + 1]) end
  end
  table.sort(numbers)
  floor = numbers[math.ceil(#numbers / 2)]
  for i = 1, #all, 2 do
    local scope = all[i] ~= 'seq' and all[i] ~= 'run'
    if scope and tonumber(all[i + 1]) <= floor then redis.call('HDEL', KEYS[1], all[i]) end
  end
  redis.call('HSET', KEYS[1], 'floor', string.format('%.0f', floor))
end
return {next}
"""
)
