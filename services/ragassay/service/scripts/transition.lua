-- Change a job's status if the one before allows it and, with a `guard`, that field is still as the caller saw it. What belongs
-- to the change happens with it: fields are set, or deleted if their new value is '', contents are kept, notifications go to
-- the outbox. A job that ends is not swept any more, requests that are open count as spent, its rows are kept for results_s
-- and its record for reports_s. The status comes last, so that what can fail has happened before it.
-- KEYS meta counters outbox active todo lease owner dead row...   ARGV to allowed guard value fields notifications results_s reports_s (key content)...   -> status before, changed
local meta, counters, to = KEYS[1], KEYS[2], ARGV[1]
local status, guarded, in_flight = unpack(redis.call('HMGET', meta, 'status', ARGV[3], 'in_flight'))
if not status then return {'', 0} end
if not string.find(ARGV[2], ',' .. status .. ',', 1, true) then return {status, 0} end
if ARGV[3] ~= '' and (guarded or '0') ~= ARGV[4] then return {status, 0} end
for i = 9, #ARGV, 2 do redis.call('SET', ARGV[i], ARGV[i + 1], 'EX', ARGV[8]) end
for _, each in ipairs(cjson.decode(ARGV[6])) do redis.call('RPUSH', KEYS[3], each) end
for field, value in pairs(cjson.decode(ARGV[5])) do
  if value == '' then redis.call('HDEL', meta, field) else redis.call('HSET', meta, field, value) end
end
if to == 'finished' or to == 'failed' or to == 'cancelled' then
  redis.call('HINCRBY', counters, 'jobs_ended\31' .. to, 1)
  redis.call('SREM', KEYS[4], string.match(meta, '{(.*)}'))
  redis.call('DEL', KEYS[5], KEYS[6], KEYS[7], KEYS[8])
  for i = 9, #KEYS do
    local chunk = string.match(KEYS[i], ':calls:(.*)$')
    if chunk and tonumber(in_flight or 0) > 0 then book_open(meta, counters, chunk, nil) end
    redis.call('EXPIRE', KEYS[i], ARGV[7])
  end
  redis.call('EXPIRE', meta, ARGV[8])
end
redis.call('HSET', meta, 'status', to, 'changed_ms', now_ms())
return {status, 1}
