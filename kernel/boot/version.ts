import { readFileSync } from 'node:fs'

let known: string | undefined

/** The version of the package, from its package.json (beside `dist` or beside the sources). */
export function version (): string {
  if (known !== undefined) return known
  for (const up of ['../../../package.json', '../../package.json']) {
    try {
      const text = readFileSync(new URL(up, import.meta.url), 'utf8')
      const { name, version: found } = JSON.parse(text) as { name?: string, version?: string }
      if (name === 'svc' && found !== undefined) return known = found
    } catch { /* not at this level */ }
  }
  return known = '0.0.0'
}
