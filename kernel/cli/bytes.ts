const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** Bytes in binary units: `3.9 GiB`. */
export function showBytes (bytes: number): string {
  let value = bytes
  let unit = 0
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit++
  }
  return `${value.toFixed(unit === 0 || Math.abs(value) >= 100 ? 0 : 1)} ${UNITS[unit]!}`
}
