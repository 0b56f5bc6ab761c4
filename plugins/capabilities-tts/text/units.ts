/** symbol: name, the plural takes an s */
const REGULAR = `
  kB kilobyte, KB kilobyte, MB megabyte, GB gigabyte, TB terabyte, PB petabyte, KiB kibibyte, MiB mebibyte,
  GiB gibibyte, TiB tebibyte, Mb megabit, Gb gigabit,
  km kilometer, cm centimeter, mm millimeter, µm micrometer, nm nanometer, m meter, mi mile, yd yard,
  px pixel, kg kilogram, mg milligram, µg microgram, g gram, lb pound, oz ounce,
  ml milliliter, mL milliliter, µl microliter, L liter, l liter, gal gallon, ha hectare,
  ms millisecond, µs microsecond, ns nanosecond, s second, sec second, secs second,
  min minute, mins minute, h hour,
  hr hour, hrs hour, W watt, kW kilowatt, MW megawatt, kWh kilowatt hour, V volt,
  mA milliamp, mAh milliamp hour,
  dB decibel, J joule, kJ kilojoule, Pa pascal, kPa kilopascal,
  cal calorie, kcal kilocalorie, pt point, tok token`

/** symbol: singular, plural */
const IRREGULAR: ReadonlyArray<readonly [string, string, string]> = [
  ['km/h', 'kilometer per hour', 'kilometers per hour'], ['mph', 'mile per hour', 'miles per hour'],
  ['m/s', 'meter per second', 'meters per second'], ['fps', 'frame per second', 'frames per second'],
  ['tok/s', 'token per second', 'tokens per second'],
  ['rpm', 'revolution per minute', 'revolutions per minute'],
  ['dpi', 'dot per inch', 'dots per inch'], ['°F', 'degree fahrenheit', 'degrees fahrenheit'],
  ['°C', 'degree celsius', 'degrees celsius'], ['°', 'degree', 'degrees'], ['%', 'percent', 'percent'],
  ['Hz', 'hertz', 'hertz'], ['kHz', 'kilohertz', 'kilohertz'], ['MHz', 'megahertz', 'megahertz'],
  ['GHz', 'gigahertz', 'gigahertz'], ['ft', 'foot', 'feet'], ['lbs', 'pound', 'pounds']
]

const PREFIXES = [['k', 'kilo'], ['K', 'kilo'], ['M', 'mega'], ['G', 'giga'], ['T', 'tera']] as const
const RATES = [['B/s', 'byte'], ['bit/s', 'bit'], ['bps', 'bit']] as const

const TABLE = new Map<string, readonly [string, string]>()
for (const entry of REGULAR.trim().split(/,\s+/)) {
  const at = entry.indexOf(' ')
  TABLE.set(entry.slice(0, at), [entry.slice(at + 1), entry.slice(at + 1) + 's'])
}
for (const [symbol, one, many] of IRREGULAR) TABLE.set(symbol, [one, many])
for (const [short, long] of PREFIXES) {
  for (const [symbol, name] of RATES) {
    TABLE.set(short + symbol, [`${long}${name} per second`, `${long}${name}s per second`])
  }
}

/** Alternatives for a pattern, longer symbols first. */
export const UNIT = [...TABLE.keys()].sort((a, b) => b.length - a.length).join('|')

/** The unit in words, for a symbol that matches UNIT. */
export function unitName (symbol: string, singular: boolean): string {
  return TABLE.get(symbol)![singular ? 0 : 1]
}
