-- Ends a request: charges the difference between what was reserved and what was spent, and gives the lease back.
-- KEYS: a marker, so that a second time changes nothing; then one a limit. ARGV: lease, day of the reservation (empty:
-- none, today's), life of the marker in milliseconds; then of each limit: kind, size, difference.
local UNIT, DAY = 60000000, 86400000000
local lease = ARGV[1]
if not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[3]) then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local today = math.floor(now / DAY)
local day = tonumber(ARGV[2]) or today

local function text(number) return string.format('%.0f', number) end
local function milliseconds(us) return text(math.ceil(us / 1000) + 1) end

for i = 2, #KEYS do
  local key, kind = KEYS[i], ARGV[3 * i - 2]
  local most, difference = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  if kind == 'concurrency' then
    redis.call('ZREM', key, lease)
  elseif difference ~= 0 and kind == 'daily_tokens' then
    -- The difference belongs to the day that was charged; nobody asks any more for what was used yesterday.
    if day == today then
      local of, used = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
      used = math.max(0, (tonumber(of) == today and tonumber(used) or 0) + difference)
      redis.call('SET', key, today .. ' ' .. text(used), 'PX', milliseconds((today + 1) * DAY - now))
    end
  elseif difference ~= 0 then
    local level, at, size = string.match(redis.call('GET', key) or '', '^(%d+) (%d+) (%d+)$')
    size = tonumber(size) or most
    local left = level and math.max(0, tonumber(level) - math.max(0, now - tonumber(at)) * size) or 0
    left = math.max(0, left + difference * UNIT)
    if left > 0 then
      redis.call('SET', key, text(left) .. ' ' .. text(now) .. ' ' .. text(size), 'PX', milliseconds(left / size))
    else
      redis.call('DEL', key)
    end
  end
end
return 1
