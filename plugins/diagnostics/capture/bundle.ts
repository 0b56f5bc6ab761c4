import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { masked, maskText } from './mask.js'
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
