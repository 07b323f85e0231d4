-- Close the rows that wait for a job: no row is added to them any more, and the job's number follows from the script alone.
-- KEYS batches open numbers   ARGV prefix batch
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('DEL', ARGV[1] .. 'bytes:' .. ARGV[2])
local pending = ARGV[1] .. 'pending:' .. ARGV[2]
if redis.call('EXISTS', pending) == 0 then return false end
local member = ARGV[2] .. ' ' .. redis.call('INCR', KEYS[3])
redis.call('RENAME', pending, ARGV[1] .. 'batch:' .. member)
redis.call('ZADD', KEYS[2], now_ms(), member)
return member
