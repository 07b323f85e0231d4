-- Go on with a paused job under a new budget; '' is no cap.
-- KEYS meta   ARGV most_usd most_tokens   -> the status before | false where there is no job
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'paused' then return status end
redis.call('HDEL', KEYS[1], 'error', 'most_usd', 'most_tokens')
if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], 'most_usd', ARGV[1]) end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'most_tokens', ARGV[2]) end
redis.call('HINCRBY', KEYS[1], 'resumes', 1)
redis.call('HSET', KEYS[1], 'status', 'running')
return status
