-- Whole numbers up to maxExact are exact in a Lua number, and nothing here exceeds it: see core/arithmetic.go.
-- Numbers become text by '%d' only, because tostring and .. keep no more than 14 digits. The remainder a % b is exact for
-- all a up to maxExact: a quotient below 2^53/b is never rounded up to the next whole number.
local maxExact = 9007199254740992

local maxBusy = 4294967295 -- how far back busy of a bucket reaches, in microseconds

local floor, max, min = math.floor, math.max, math.min
local call, find, format, match, sub = redis.call, string.find, string.format, string.match, string.sub
