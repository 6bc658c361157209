-- Prolongs the leases of running requests. KEYS: sets of leases. ARGV: their life in microseconds; then of each set its
-- leases, separated by spaces.
local life = tonumber(ARGV[1])
local time = redis.call('TIME')
local ends = string.format('%.0f', time[1] * 1000000 + time[2] + life)
for i, key in ipairs(KEYS) do
  -- XX: a lease that was given back meanwhile stays away.
  for lease in string.gmatch(ARGV[i + 1], '%S+') do redis.call('ZADD', key, 'XX', ends, lease) end
  redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(life / 1000) + 1))
end
return #KEYS
