-- Let go of a job that has ended, unless it works again by now: it is not swept any more, requests that are open count as spent,
-- its rows are kept for results_s and its record for reports_s.
-- KEYS meta todo lease owner dead active counters row...   ARGV results_s reports_s chunk...   -> 1 | 0
local status, in_flight = unpack(redis.call('HMGET', KEYS[1], 'status', 'in_flight'))
if status and status ~= 'finished' and status ~= 'failed' and status ~= 'cancelled' then return 0 end
redis.call('SREM', KEYS[6], string.match(KEYS[1], '{(.*)}'))
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if tonumber(in_flight or 0) > 0 then
  for i = 3, #ARGV do book_open(KEYS[1], KEYS[7], ARGV[i], nil) end
end
for i = 8, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
