"""What the server does for ValkeyConversations: each is one round trip in which nothing else happens.

Keys of one owner begin with KEYS[1], which holds the hash tag, so that in a cluster they are in one place:

    a:<answer id>    hash: p, the answer before it; s, bytes of what was said; v, what was said, and r, the record, if
                     there is one; both gone when deleted
    s:<session id>   the newest answer of the session
    index            sorted set: the names of all of these, by the time in ms when they end
"""

_SHARED = """
local prefix, index = KEYS[1], KEYS[1] .. 'index'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function keep(name, ttl)
  redis.call('PEXPIRE', prefix .. name, ttl)
  redis.call('ZADD', index, string.format('%.0f', now + ttl), name)
  redis.call('PEXPIRE', index, ttl)
end
"""

# ARGV: s or a, the id, milliseconds to keep, most turns, most bytes. Answers nothing where there is no such thing, else
# 1 and, from the newest turn on, its id, the one before it, and what was said.
WALK = (
    _SHARED
    + """
local ttl, turns, bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local head = ARGV[2]
if ARGV[1] == 's' then
  head = redis.call('GET', prefix .. 's:' .. ARGV[2])
  if not head then return {} end
  keep('s:' .. ARGV[2], ttl)
elseif redis.call('HEXISTS', prefix .. 'a:' .. head, 'v') == 0 then
  return {}
end
local found, steps = {1}, 0
while head ~= '' and #found < 3 * turns and steps < 10000 do
  local one = redis.call('HMGET', prefix .. 'a:' .. head, 'p', 's', 'v')
  if not one[1] then break end
  if one[3] then
    bytes = bytes - tonumber(one[2])
    if bytes < 0 then break end
    found[#found + 1], found[#found + 2], found[#found + 3] = head, one[1], one[3]
  end
  keep('a:' .. head, ttl)
  head, steps = one[1], steps + 1
end
return found
"""
)

# ARGV: the answer's id, milliseconds to keep. Answers nothing where there is no such thing, else the answer before it,
# what was said, and the record.
READ = (
    _SHARED
    + """
local one = redis.call('HMGET', prefix .. 'a:' .. ARGV[1], 'p', 'v', 'r')
if not one[2] then return {} end
keep('a:' .. ARGV[1], tonumber(ARGV[2]))
return {one[1], one[2], one[3] or ''}
"""
)

# ARGV: answer id, session id or nothing, the answer before it, bytes, what was said, milliseconds to keep, most names,
# the record or nothing.
APPEND = (
    _SHARED
    + """
local id, session, previous, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6])
if redis.call('EXISTS', prefix .. 'a:' .. id) == 1 then return 0 end
if session ~= '' then
  previous = redis.call('GET', prefix .. 's:' .. session) or ''
  redis.call('SET', prefix .. 's:' .. session, id)
  keep('s:' .. session, ttl)
end
redis.call('HSET', prefix .. 'a:' .. id, 'p', previous, 's', ARGV[4], 'v', ARGV[5])
if ARGV[8] ~= '' then redis.call('HSET', prefix .. 'a:' .. id, 'r', ARGV[8]) end
keep('a:' .. id, ttl)
redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('(%.0f', now))
local extra = redis.call('ZCARD', index) - tonumber(ARGV[7])
if extra > 0 then
  for _, name in ipairs(redis.call('ZRANGE', index, 0, extra - 1)) do
    redis.call('DEL', prefix .. name)
    redis.call('ZREM', index, name)
  end
end
return 1
"""
)

# ARGV: s, a or *, and the id. Answers how many turns there were, -1 where there is no such thing.
FORGET = (
    _SHARED
    + """
local count = 0
local function drop(name)
  count = count + redis.call('HEXISTS', prefix .. name, 'v')
  redis.call('DEL', prefix .. name)
  redis.call('ZREM', index, name)
end
if ARGV[1] == '*' then
  for _, name in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    if string.sub(name, 1, 2) == 'a:' then drop(name) else redis.call('DEL', prefix .. name) end
  end
  redis.call('DEL', index)
  return count
end
if ARGV[1] == 'a' then
  if redis.call('HEXISTS', prefix .. 'a:' .. ARGV[2], 'v') == 0 then return -1 end
  redis.call('HDEL', prefix .. 'a:' .. ARGV[2], 'v', 'r')
  return 1
end
local head = redis.call('GET', prefix .. 's:' .. ARGV[2])
if not head then return -1 end
redis.call('DEL', prefix .. 's:' .. ARGV[2])
redis.call('ZREM', index, 's:' .. ARGV[2])
while head and head ~= '' do
  local previous = redis.call('HGET', prefix .. 'a:' .. head, 'p')
  drop('a:' .. head)
  head = previous
end
return count
"""
)
