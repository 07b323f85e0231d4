-- Take from a job what it has leased and does not use: all but what is spent, and reserved by calls in flight. Calls that
-- are in flight long after the end of their job count as spent.
-- KEYS meta   ARGV calls_end_ms   -> {number, spent, upto} | false where the job has no lease
local status, lease, spent, open, turned =
  unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_usd', 'spent_usd', 'open_usd', 'turned_ms'))
if not lease then return false end
spent, open = tonumber(spent or 0), math.max(0, tonumber(open or 0))
local t = redis.call('TIME')
local ended = status == 'finished' or status == 'failed' or status == 'cancelled'
local upto = string.format('%.17g', spent + open)
if ended and t[1] * 1000 - tonumber(turned or 0) > tonumber(ARGV[1]) then spent = spent + open end
redis.call('HSET', KEYS[1], 'lease_usd', upto)
return {redis.call('HINCRBY', KEYS[1], 'lease_number', 1), string.format('%.17g', spent), upto}
