-- States and numbers as bytes.
--
-- A word is a whole number of 8 bytes, little-endian. Redis packs words with its library struct. miniredis, which
-- applications use in tests, has no such library.
local word = 8

local function wordsWithoutStruct()
  return {
    pack = function(_, ...)
      local text = {}
      for _, n in ipairs({...}) do
        for _ = 1, word do
          text[#text + 1] = string.char(n % 256)
          n = floor(n / 256)
        end
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

-- formats[n] is the format of n words: '<' and an 'I8' for each.
local formats = setmetatable({}, {__index = function(all, n)
  all[n] = '<' .. string.rep('I8', n)
  return all[n]
end})
