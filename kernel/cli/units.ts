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

/** A span in at most two units: `9s`, `1h12m`, `3d`. */
export function showSpan (seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const first = STEPS.findIndex(([, size]) => whole >= size)
  if (first < 0) return '0s'
  const [unit, size] = STEPS[first]!
  const rest = STEPS[first + 1]
  const more = rest === undefined ? 0 : Math.floor((whole % size) / rest[1])
  return `${Math.floor(whole / size)}${unit}${more > 0 ? `${more}${rest![0]}` : ''}`
}

const SPAN = /^(\d{1,9})(s|m|h|d)?$/

/** Seconds of a span such as `90`, `90s`, `15m`, `2h` or `1d`; undefined for anything else. */
export function readSpan (text: string): number | undefined {
  const found = SPAN.exec(text)
  if (found === null) return undefined
  return Number(found[1]) * STEPS.find(([unit]) => unit === (found[2] ?? 's'))![1]
}
