import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { HIDDEN, withoutUrlSecrets } from '../../../kernel/index.js'
import type { TarFile } from './tar.js'

export const PART_BYTES = 4 * 1024 ** 2
export const BUNDLE_BYTES = 24 * 1024 ** 2

/** A part of a bundle; `make` returns a JSON value, or a string that is stored unchanged. */
export interface Part { name: string, what: string, make: () => unknown }

export interface BundleOptions {
  node: string
  version: string
  nowMs: number
  parts: readonly Part[]
  /** Secrets to mask in addition to those that have a recognisable form. */
  secrets: readonly string[]
}

export interface Bundle { name: string, bytes: Buffer }

interface Collected extends TarFile { what: string, problem: string | null }

/** Creates a bundle for a bug report. A failed or oversized part is replaced by the reason. */
export async function makeBundle (options: BundleOptions): Promise<Bundle> {
  const { node, nowMs } = options
  const safe = node.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 40)
  const time = new Date(nowMs).toISOString().replace(/[-:]/g, '').replace(/\..*/, 'Z')
  const folder = `svc-capture-${safe}-${time}`
  const collected: Collected[] = []
  let total = 0
  for (const part of options.parts) {
    const one = await collect(part, options.secrets, BUNDLE_BYTES - total)
    total += one.bytes.byteLength
    collected.push(one)
  }
  // Loaded on demand: most nodes never make a bundle.
  const { packTar } = await import('./tar.js')
  const files = [{ name: 'README.txt', bytes: Buffer.from(readme(options, collected)) }, ...collected]
  const tar = packTar(files.map(({ name, bytes }) => ({ name: `${folder}/${name}`, bytes })), nowMs / 1000)
  return { name: `${folder}.tar.gz`, bytes: await promisify(gzip)(tar) }
}

async function collect (part: Part, secrets: readonly string[], room: number): Promise<Collected> {
  const { name, what } = part
  try {
    const value = await part.make()
    const text = typeof value === 'string' ? maskText(value, secrets) : jsonOf(masked(value, secrets))
    const bytes = Buffer.from(text)
    const most = Math.min(PART_BYTES, room)
    if (bytes.byteLength <= most) return { name, what, bytes, problem: null }
    return without(part, `left out: it has ${bytes.byteLength} bytes, and only ${most} are left`)
  } catch (error) {
    const said = maskText(error instanceof Error ? error.message : String(error), secrets).slice(0, 300)
    return without(part, `could not be collected: ${said}`)
  }
}

const without = ({ name, what }: Part, problem: string): Collected =>
  ({ name, what, bytes: Buffer.alloc(0), problem })

const jsonOf = (value: unknown): string => `${JSON.stringify(value ?? null, null, 1)}\n`

function readme ({ node, version, nowMs }: BundleOptions, parts: readonly Collected[]): string {
  const lines = parts.map(({ name, what, bytes, problem }) =>
    `  ${name.padEnd(16)} ${problem ?? `${bytes.byteLength} bytes`}\n    ${what}`)
  return `State of the svc ${version} node ${node}, ${new Date(nowMs).toISOString()}, for a bug report.

It contains no prompts, texts, answers, sounds, tokens or keys; secrets of the settings are masked.
It contains names of nodes and models, addresses and paths: check it before you make it public.

${lines.join('\n')}
`
}

export const MASK = HIDDEN

/** Keys whose values are masked completely. */
const SECRET_KEY =
  /(^|[_-])(authorization|cookie|password|passphrase|secret|token|api[_-]?key|private[_-]?key)$/i
/** Like SECRET_KEY, for names in camelCase. */
const SECRET_NAME = /(Authorization|Cookie|Password|Passphrase|Secret|Token|ApiKey|PrivateKey)$/

/** Patterns for svc secrets and for secrets from other services. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/svc_(op|app|dev|join)_[0-9A-Za-z]{8,}(_[0-9A-Za-z]+)?/g, `svc_$1_${MASK}`],
  [/svcjoin1_[A-Za-z0-9_-]+/g, `svcjoin1_${MASK}`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, MASK],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${MASK}`],
  [/\b(hf|sk|ghp|gho|glpat|xox[abp])([_-])[A-Za-z0-9_-]{10,}/g, `$1$2${MASK}`],
  [/([?&](?:[\w-]*token|[\w-]*key|secret|password|sig|signature)=)[^&\s"'#]+/gi, `$1${MASK}`]
]

/** Masks substrings that look like a secret, and the `known` secrets. */
export function maskText (text: string, known: readonly string[] = []): string {
  const without = known.reduce((left, secret) => secret === '' ? left : left.replaceAll(secret, MASK), text)
  return PATTERNS.reduce((left, [pattern, put]) => left.replace(pattern, put), withoutUrlSecrets(without))
}

/** A JSON value with masked strings; the values of secret keys are masked completely. */
export function masked (value: unknown, known: readonly string[] = []): unknown {
  if (typeof value === 'string') return maskText(value, known)
  if (Array.isArray(value)) return value.map((one) => masked(one, known))
  if (typeof value !== 'object' || value === null) return value
  // In a list of settings, a secret is in `value` and its name in `path`, so check the name there too.
  const { path } = value as { path?: unknown }
  const setting = typeof path === 'string' && isSecret(path.slice(path.lastIndexOf('.') + 1))
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => {
    const hide = typeof inner === 'string' && inner !== '' && (isSecret(key) || (setting && key === 'value'))
    return [maskText(key, known), hide ? MASK : masked(inner, known)]
  }))
}

const isSecret = (name: string): boolean => SECRET_KEY.test(name) || SECRET_NAME.test(name)
