-- Change a job's status if the one before allows it and, with a `guard`, that field is still as the caller saw it. What belongs
-- to the change happens with it: fields are set, or deleted if their new value is '', contents are kept, notifications go to
-- the outbox. The status comes last, so that what can fail has happened before it.
-- KEYS meta counters outbox kept...   ARGV to allowed guard value fields notifications kept_s content...   -> status before, changed
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return {'', 0} end
if not string.find(ARGV[2], ',' .. status .. ',', 1, true) then return {status, 0} end
if ARGV[3] ~= '' and (redis.call('HGET', KEYS[1], ARGV[3]) or '0') ~= ARGV[4] then return {status, 0} end
for i = 4, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 4], 'EX', ARGV[7]) end
for _, each in ipairs(cjson.decode(ARGV[6])) do redis.call('RPUSH', KEYS[3], each) end
for field, value in pairs(cjson.decode(ARGV[5])) do
  if value == '' then redis.call('HDEL', KEYS[1], field) else redis.call('HSET', KEYS[1], field, value) end
end
local ended = ARGV[1] == 'finished' or ARGV[1] == 'failed' or ARGV[1] == 'cancelled'
if ended then redis.call('HINCRBY', KEYS[2], 'jobs_ended\31' .. ARGV[1], 1) end
redis.call('HSET', KEYS[1], 'status', ARGV[1], 'changed_ms', now_ms())
return {status, 1}
