-- States and numbers as bytes.
--
-- A word is a whole number of 8 bytes, little-endian. Redis packs words with its library struct. miniredis, which
-- applications use in tests, has no such library.
local word = 8

local wordsWithoutStruct = { -- the same functions
  pack = function(_, ...)
    local text = ''
    for _, n in ipairs({...}) do
      for i = 0, word - 1 do
        text = text .. string.char(floor(n / 256 ^ i) % 256)
      end
    end
    return text
  end,
  unpack = function(form, s, first)
    local numbers = {}
    for i = 1, #form - 1 do
      numbers[i] = 0
      for at = word - 1, 0, -1 do
        numbers[i] = 256 * numbers[i] + string.byte(s, (first or 1) + word * (i - 1) + at)
      end
    end
    return unpack(numbers)
  end,
}

local struct = rawget(_G, 'struct') or wordsWithoutStruct
local pack, unpackWords = struct.pack, struct.unpack
local format, sub, byte, unpack, concat = string.format, string.sub, string.byte, unpack, table.concat
local call, tryCall = redis.call, redis.pcall

-- formats[n] is the format of n words, nil if n is no whole number, or too many for one call. An 'L' is faster than an
-- 'I8', but shorter if the server has 32 bits.
local maxWords = 2000
local wordFormat = #pack('L', 0) == word and 'L' or 'I8'
local formats = setmetatable({}, {__index = function(all, n)
  if n > 0 and n % 1 == 0 and n <= maxWords then
    all[n] = '<' .. string.rep(wordFormat, n)
    return all[n]
  end
end})

local oneWord, twoWords, fourWords, fiveWords, sixWords = formats[1], formats[2], formats[4], formats[5], formats[6]

-- newCache returns a table that makes what it does not have from a text: at most as many as most.
local function newCache(make, most)
  local count = 0
  return setmetatable({}, {__index = function(all, text)
    if count >= most then
      count = 0
      for old in pairs(all) do
        all[old] = nil
      end
    end
    all[text], count = make(text), count + 1
    return rawget(all, text)
  end})
end
