-- Forget a version of a dataset, its name with the last of them, and the rows where no name has them any more.
-- KEYS versions names named rows   ARGV digest name   -> 1 | 0 where there is no such version
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[2]) end
redis.call('SREM', KEYS[3], ARGV[2])
if redis.call('EXISTS', KEYS[3]) == 0 then redis.call('UNLINK', KEYS[4]) end
return 1
