const SYSTEMS: [RegExp, string][] = [
  [/iPhone/, 'iPhone'], [/iPad/, 'iPad'], [/Android/, 'Android'], [/CrOS/, 'Chromebook'],
  [/Macintosh/, 'Mac'], [/Windows/, 'Windows'], [/Linux/, 'Linux']
]
const BROWSERS: [RegExp, string][] = [
  [/Firefox|FxiOS/, 'Firefox'], [/Edg/, 'Edge'], [/OPR\//, 'Opera'], [/Chrom|CriOS/, 'Chrome'],
  [/Safari/, 'Safari']
]

/** Default name of a browser, from its User-Agent: `Chrome on Android`. */
export function browserName (userAgent: string): string {
  const find = (list: [RegExp, string][]): string | undefined =>
    list.find(([pattern]) => pattern.test(userAgent))?.[1]
  const [browser = 'Browser', system] = [find(BROWSERS), find(SYSTEMS)]
  return system === undefined ? browser : `${browser} on ${system}`
}

export const spaced = (digits: string): string => `${digits.slice(0, 3)} ${digits.slice(3)}`

interface Choice { authorities: string[], viaRelay: string[] }

/** Replaces the chosen authorities, and drops the removed ones from those allowed over a relay. */
export const chosenWith = ({ viaRelay }: Choice, authorities: string[]): Choice =>
  ({ authorities, viaRelay: viaRelay.filter((one) => authorities.includes(one)) })
