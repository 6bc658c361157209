"""What the server does for ValkeyJobStore: each change is one script, so that no crash leaves a job half changed."""

# job:<id>       hash: submission (JSON), tenant, document, status, reason, title, counts, warnings, times, owner;
#                storing: "1" while nothing can stop it; after: the job of its document that was storing when it came
# queue:<tenant> list of waiting ids, next one right     turns      tenants with a queue → ticket of their last turn
# delayed        id → time at which it waits again        leases     id → time at which its worker is given up
# open           unfinished ids                           open:<t>   those of one tenant
# served         tenant → ticket of its last turn         ticket     the last ticket
# newest:<t>     document → id of its newest job          documents:<t>  document → time of that
# jobs:<t>       id → time, to forget the old ones
_SHARED = """
local p = ARGV[1]
local t = redis.call('TIME'); local now = t[1] + t[2] / 1000000
local function job(id) return p .. 'job:' .. id end
local function clock() return string.format('%.6f', now) end
local function enqueue(id)
  local tenant = redis.call('HGET', job(id), 'tenant')
  if redis.call('LPUSH', p .. 'queue:' .. tenant, id) == 1 then
    redis.call('ZADD', p .. 'turns', redis.call('HGET', p .. 'served', tenant) or 0, tenant)
  end
end
local function release(id)
  redis.call('ZREM', p .. 'leases', id)
  if redis.call('EXISTS', job(id)) == 0 then return end
  redis.call('HSET', job(id), 'owner', '', 'storing', '', 'status', 'QUEUED', 'updated', clock())
  enqueue(id)
end
local function close(id, tenant)
  redis.call('SREM', p .. 'open', id); redis.call('SREM', p .. 'open:' .. tenant, id)
end
local function cancel(id, reason)
  if redis.call('SISMEMBER', p .. 'open', id) == 0 or redis.call('HGET', job(id), 'storing') == '1' then return end
  local tenant = redis.call('HGET', job(id), 'tenant')
  close(id, tenant)
  redis.call('HSET', job(id), 'status', 'CANCELLED', 'reason', reason, 'owner', '', 'updated', clock())
  redis.call('ZREM', p .. 'leases', id); redis.call('ZREM', p .. 'delayed', id)
  local queue = p .. 'queue:' .. tenant
  if redis.call('LREM', queue, 0, id) > 0 and redis.call('LLEN', queue) == 0 then
    redis.call('ZREM', p .. 'turns', tenant)
  end
end
"""

# ARGV: prefix, most open, most open of a tenant, retention, id, tenant, document, title, submission, reason for the
# superseded
ADD = (
    _SHARED
    + """
local id, tenant, document = ARGV[5], ARGV[6], ARGV[7]
if redis.call('SCARD', p .. 'open') >= tonumber(ARGV[2]) then return 'full' end
if redis.call('SCARD', p .. 'open:' .. tenant) >= tonumber(ARGV[3]) then return 'tenant full' end
local jobs, newest, documents = p .. 'jobs:' .. tenant, p .. 'newest:' .. tenant, p .. 'documents:' .. tenant
for _, old in ipairs(redis.call('ZRANGEBYSCORE', jobs, '-inf', now - tonumber(ARGV[4]), 'LIMIT', 0, 20)) do
  if redis.call('SISMEMBER', p .. 'open', old) == 0 then
    local its = redis.call('HGET', job(old), 'document')
    if its and redis.call('HGET', newest, its) == old then
      redis.call('HDEL', newest, its); redis.call('ZREM', documents, its)
    end
    redis.call('DEL', job(old)); redis.call('ZREM', jobs, old)
  end
end
local before, after = redis.call('HGET', newest, document), ''
if before then
  after = redis.call('HGET', job(before), 'storing') == '1' and before or redis.call('HGET', job(before), 'after') or ''
  cancel(before, ARGV[10])
end
redis.call('HSET', job(id), 'submission', ARGV[9], 'tenant', tenant, 'document', document, 'status', 'QUEUED',
  'reason', '', 'title', ARGV[8], 'chunks', 0, 'total_chunks', 0, 'pages', 0, 'warnings', '[]', 'attempts', 0,
  'created', clock(), 'updated', clock(), 'owner', '', 'storing', '', 'after', after)
redis.call('SADD', p .. 'open', id); redis.call('SADD', p .. 'open:' .. tenant, id)
redis.call('ZADD', jobs, now, id)
redis.call('HSET', newest, document, id)
redis.call('ZADD', documents, now, document)
enqueue(id)
return 'added'
"""
)

# ARGV: prefix, owner, lease, seconds to wait for a document that is being stored
TAKE = (
    _SHARED
    + """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'leases', '-inf', now, 'LIMIT', 0, 100)) do release(id) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', p .. 'delayed', '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', p .. 'delayed', id); enqueue(id)
end
while true do
  local tenant = redis.call('ZRANGE', p .. 'turns', 0, 0)[1]
  if not tenant then return '' end
  local queue = p .. 'queue:' .. tenant
  local id = redis.call('RPOP', queue)
  local left = redis.call('LLEN', queue)
  if left == 0 then redis.call('ZREM', p .. 'turns', tenant) end
  local after = redis.call('HGET', job(id), 'after')
  if after and after ~= '' and redis.call('HGET', job(after), 'storing') == '1' then
    redis.call('ZADD', p .. 'delayed', now + tonumber(ARGV[4]), id)
  else
    local ticket = redis.call('INCR', p .. 'ticket')
    redis.call('HSET', p .. 'served', tenant, ticket)
    if left > 0 then redis.call('ZADD', p .. 'turns', ticket, tenant) end
    redis.call('HSET', job(id), 'owner', ARGV[2])
    redis.call('HINCRBY', job(id), 'attempts', 1)
    redis.call('ZADD', p .. 'leases', now + tonumber(ARGV[3]), id)
    return id
  end
end
"""
)

# ARGV: prefix, owner, id, what ("keep", "finish", "back"), lease or delay, then field and value pairs
STORE = (
    _SHARED
    + """
local id = ARGV[3]
if redis.call('HGET', job(id), 'owner') ~= ARGV[2] then return 0 end
for i = 6, #ARGV, 2 do redis.call('HSET', job(id), ARGV[i], ARGV[i + 1]) end
redis.call('HSET', job(id), 'updated', clock())
if ARGV[4] == 'keep' then redis.call('ZADD', p .. 'leases', now + tonumber(ARGV[5]), id); return 1 end
redis.call('HSET', job(id), 'owner', '')
redis.call('ZREM', p .. 'leases', id)
if ARGV[4] == 'finish' then close(id, redis.call('HGET', job(id), 'tenant'))
else redis.call('ZADD', p .. 'delayed', now + tonumber(ARGV[5]), id) end
return 1
"""
)

# ARGV: prefix, tenant, id, reason
CANCEL = (
    _SHARED
    + """
if redis.call('HGET', job(ARGV[3]), 'tenant') ~= ARGV[2] then return 0 end
cancel(ARGV[3], ARGV[4])
if redis.call('HGET', job(ARGV[3]), 'status') == 'FAILED' then
  redis.call('HSET', job(ARGV[3]), 'status', 'CANCELLED', 'updated', clock())
end
return 1
"""
)

# ARGV: prefix, owner
RECOVER = (
    _SHARED
    + """
local count = 0
for _, id in ipairs(redis.call('ZRANGE', p .. 'leases', 0, -1)) do
  if redis.call('HGET', job(id), 'owner') == ARGV[2] then release(id); count = count + 1 end
end
return count
"""
)

# ARGV: prefix
BACKLOG = (
    _SHARED
    + """
local count, oldest = 0, now
for _, id in ipairs(redis.call('SMEMBERS', p .. 'open')) do
  count = count + 1
  oldest = math.min(oldest, tonumber(redis.call('HGET', job(id), 'created')) or now)
end
return {count, string.format('%.3f', now - oldest)}
"""
)
