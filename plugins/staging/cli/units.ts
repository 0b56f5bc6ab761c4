const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** A number of bytes for people: `512 B`, `3.5 GiB`. */
export function showBytes (bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]!}`
}

const STEPS = [['d', 86_400], ['h', 3600], ['m', 60], ['s', 1]] as const

/** A span of milliseconds in at most two units, rounded up to seconds: `9s`, `1h12m`, `3d`. */
export function showSpan (ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000))
  const first = STEPS.findIndex(([, size]) => seconds >= size)
  if (first < 0) return '0s'
  const [unit, size] = STEPS[first]!
  const next = STEPS[first + 1]
  const rest = next === undefined ? 0 : Math.floor((seconds % size) / next[1])
  return `${Math.floor(seconds / size)}${unit}${rest > 0 ? `${rest}${next![0]}` : ''}`
}

/** Without control characters: what another machine sends must not steer the terminal. */
export const plain = (text: string): string => text.replace(/\p{Cc}+/gu, ' ')
