-- States and numbers as bytes.
--
-- A word is a whole number of 8 bytes, little-endian. Redis packs words with its library struct. miniredis, which
-- applications use in tests, has no such library.
local word = 8

local function wordsWithoutStruct()
  return {
    pack = function(_, ...)
      local text = {}
      for i, n in ipairs({...}) do
        local bytes = {}
        for k = 1, word do
          bytes[k], n = n % 256, floor(n / 256)
        end
        text[i] = string.char(unpack(bytes))
      end
      return table.concat(text)
    end,
    unpack = function(form, s, first)
      local numbers = {}
      for i = 1, (#form - 1) / 2 do
        local n = 0
        for at = (first or 1) + word * i - 1, (first or 1) + word * (i - 1), -1 do
          n = 256 * n + string.byte(s, at)
        end
        numbers[i] = n
      end
      return unpack(numbers)
    end,
  }
end

local struct = rawget(_G, 'struct') or wordsWithoutStruct()
local pack, unpackWords = struct.pack, struct.unpack
local byte, char, format, sub = string.byte, string.char, string.format, string.sub

-- formats[n] is the format of n bytes: '<' and an 'I8' for each word; nil if that is no number of words, or too many for one call.
local maxWords = 2000
local formats = setmetatable({}, {__index = function(all, n)
  if n > 0 and n % word == 0 and n <= maxWords * word then
    all[n] = '<' .. string.rep('I8', n / word)
    return all[n]
  end
end})

-- textOf returns the words of a list from first to last as bytes.
local function textOf(list, first, last)
  if last - first >= maxWords then
    return textOf(list, first, first + maxWords - 1) .. textOf(list, first + maxWords, last)
  end
  return pack(formats[word * (last - first + 1)], unpack(list, first, last))
end
