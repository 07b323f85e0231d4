-- Make rows that were written visible as a version of a dataset. Sent again after a lost answer, it changes nothing.
-- KEYS new rows versions names named   ARGV digest name record   -> 1 | 0 where the rows were too slow and are gone
if redis.call('EXISTS', KEYS[2]) == 0 then
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[4], 0, ARGV[2])
redis.call('SADD', KEYS[5], ARGV[2])
return 1
