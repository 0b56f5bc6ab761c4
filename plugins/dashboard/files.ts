// Reads the files of the built page and their compressed forms, once.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8'
}

export interface PageFile {
  readonly type: string, readonly etag: string, readonly plain: Buffer, readonly br: Buffer
  readonly gzip: Buffer
}

/** The folder of the built page, which is under dist if svc runs from sources. */
function builtFolder (): string | undefined {
  return ['./built/', '../../dist/current/plugins/dashboard/built/']
    .map((folder) => fileURLToPath(new URL(folder, import.meta.url))).find((folder) => existsSync(folder))
}

/** Every file of the page by name; null if the page was not built. */
export function pageFiles (folder = builtFolder()): ReadonlyMap<string, PageFile> | null {
  if (folder === undefined) return null
  const names = readdirSync(folder).filter((name) => (/\.(html|js|css)$/.test(name)))
  return new Map(names.map((name) => {
    const plain = readFileSync(folder + name)
    const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`
    const type = TYPES[name.slice(name.lastIndexOf('.') + 1)]!
    const compressed = (ending: string): Buffer => readFileSync(`${folder}${name}.${ending}`)
    return [name, { type, etag, plain, br: compressed('br'), gzip: compressed('gz') }]
  }))
}

type Encoding = 'br' | 'gzip'

/** Chooses the encoding for a response from the request's Accept-Encoding; null for none. */
export function encodingFor (accepted: string | undefined): Encoding | null {
  const weights = new Map((accepted ?? '').split(',').map((item) => {
    const [name = '', ...parameters] = item.toLowerCase().split(';').map((part) => part.trim())
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    return [name, q === undefined ? 1 : Number(q.slice(2))] as const
  }))
  const weight = (name: Encoding): number => weights.get(name) ?? weights.get('*') ?? 0
  if (weight('br') > 0 && weight('br') >= weight('gzip')) return 'br'
  return weight('gzip') > 0 ? 'gzip' : null
}
