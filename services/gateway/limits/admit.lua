-- Admits a request against all its limits at once, or refuses it and takes nothing. buckets.py explains the numbers.
-- KEYS: one a limit. ARGV: lease (empty: only look), its life in microseconds; then of each limit: kind, size, the cost
-- that is wanted and the least that will do (0: the limit is only looked at).
-- Answers {day, {key, used, microseconds until it is unused again, microseconds to wait or 0, what was taken}, …}.
local UNIT, DAY, BUSY = 60000000, 86400000000, 1000000
local lease, life = ARGV[1], tonumber(ARGV[2])
-- The server's clock: those of the gateways differ.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local day = math.floor(now / DAY)

-- Lua's own conversion of numbers to text keeps 14 digits; microseconds since 1970 have 16.
local function text(number) return string.format('%.0f', number) end
local function milliseconds(us) return text(math.ceil(us / 1000) + 1) end

local function level_of(key, most)
  local level, at, size = string.match(redis.call('GET', key) or '', '^(%d+) (%d+) (%d+)$')
  if not level then return 0 end
  size = tonumber(size)
  level = math.max(0, tonumber(level) - math.max(0, now - tonumber(at)) * size)
  if size ~= most then level = math.floor(level * most / size) end
  return level
end

local limits, refused = {}, false
for i, key in ipairs(KEYS) do
  local one = {kind = ARGV[4 * i - 1], most = tonumber(ARGV[4 * i]), wait = 0}
  one.cost, one.least = tonumber(ARGV[4 * i + 1]), tonumber(ARGV[4 * i + 2])
  if one.kind == 'concurrency' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
    one.used = redis.call('ZCARD', key)
    if one.least > 0 and one.used >= one.most then one.wait = BUSY end
  elseif one.kind == 'daily_tokens' then
    local of, used = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
    one.used = tonumber(of) == day and tonumber(used) or 0
    if one.least > 0 and one.used + one.least > one.most then one.wait = (day + 1) * DAY - now end
  else
    one.level = level_of(key, one.most)
    one.used = math.ceil(one.level / UNIT)
    if one.least > 0 then
      one.wait = math.max(0, math.ceil((one.level + (one.least - one.most) * UNIT) / one.most))
    end
  end
  refused = refused or one.wait > 0
  limits[i] = one
end

local answer = {day}
for i, key in ipairs(KEYS) do
  local one, reset, written = limits[i], 0, false
  -- What is left, between the least that is needed and what is wanted.
  local cost = math.max(one.least, math.min(one.cost, one.most - one.used))
  local take = not refused and cost > 0
  if one.kind == 'concurrency' then
    reset = life
    if take then
      redis.call('ZADD', key, text(now + life), lease)
      one.used = one.used + 1
    end
  elseif one.kind == 'daily_tokens' then
    reset = (day + 1) * DAY - now
    if take then
      one.used = one.used + cost
      redis.call('SET', key, day .. ' ' .. text(one.used), 'PX', milliseconds(reset))
      written = true
    end
  else
    if take then one.level = one.level + cost * UNIT end
    one.used, reset = math.ceil(one.level / UNIT), math.ceil(one.level / one.most)
    if take then
      local state = text(one.level) .. ' ' .. text(now) .. ' ' .. text(one.most)
      redis.call('SET', key, state, 'PX', milliseconds(reset))
      written = true
    end
  end
  -- A lease's set has its life prolonged each time; a key without an end, made by whomever, is given one.
  if (take and not written) or redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, milliseconds(reset))
  end
  answer[i + 1] = {key, one.used, one.kind == 'concurrency' and 0 or reset, one.wait, take and cost or 0}
end
return answer
