/** Archives like those in llama.cpp's releases, and an HTTPS server for them. */
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:https'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Header } from 'tar'
import { ownIdentity } from '../../../kernel/boot/api-tls.js'
import * as x509 from '../../../kernel/http/tls/x509.js'
import { cli, type Ran } from '../../../kernel/test/cli-helpers.js'
import { PINNED } from '../builds/release.js'
import type { AddressInfo } from 'node:net'
import type { ServerResponse } from 'node:http'
import { buildsFolder } from '../../runners/service.js'
import llamaCpp from '../index.js'
import type { TestCase } from './llama-kit.js'

const SYSTEM = process.platform === 'darwin' ? 'macos' : 'ubuntu'
/** File name of a release archive for this machine. */
export const nameOf = (tag: string, variant = ''): string =>
  `llama-${tag}-bin-${SYSTEM}-${variant}${process.arch}.tar.gz`

/** An entry in a hand-made, possibly invalid archive. */
export interface Made {
  path: string, text?: string | Buffer, type?: 'File' | 'Directory', link?: string, hard?: boolean
}

export function tarOf (entries: readonly Made[]): Buffer {
  const blocks = entries.flatMap(({ path, text = '', type = 'File', link, hard = false }) => {
    const bytes = Buffer.from(text as string)
    const header = new Header({
      path, size: bytes.length, mode: 0o777, type: link === undefined ? type : hard ? 'Link' : 'SymbolicLink',
      ...link === undefined ? {} : { linkpath: link }
    })
    header.encode()
    return [header.block!, bytes, Buffer.alloc((512 - bytes.length % 512) % 512)]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}

/** A shell script that stands in for llama-server; it reports a version and a device. */
export const SERVER = '#!/bin/sh\ncase "$1" in\n--version) echo "version: 1" ;;\n' +
  '--list-devices) echo "Available devices:"; echo "  Test0: A made-up device (8 MiB, 7 MiB free)" ;;\n' +
  'wait) touch "$2"; while :; do sleep 0.1; done ;;\nesac\n'

/** A release archive; `weight` incompressible bytes make it larger. */
export function archiveOf (tag: string, { server = SERVER, weight = 0 } = {}): Buffer {
  const top = `llama-${tag}`
  return tarOf([
    { path: `${top}/`, type: 'Directory' }, { path: `${top}/LICENSE`, text: 'MIT' },
    { path: `${top}/libx.so`, link: 'libx.so.0' }, { path: `${top}/libx.so.0`, link: 'libx.so.0.1' },
    { path: `${top}/libx.so.0.1`, text: 'a library' }, { path: `${top}/llama-server`, text: server },
    { path: `${top}/weight`, text: randomBytes(weight) }
  ])
}

export const sha256 = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** An archive, and how the release server responds to requests for it. */
export interface Served {
  bytes: Buffer
  /** The digest that svc pins; null for no digest. By default that of the archive. */
  digest?: string | null
  url?: string
  /** Number of bytes after which the first connection is closed (`cut`) or stalls (`hold`). */
  cut?: number, hold?: number
  /** Whether the server ignores Range headers. */
  whole?: boolean
}

/** A self-signed certificate, which this process accepts until the test ends. */
function selfSigned (t: TestCase) {
  const home = mkdtempSync(join(tmpdir(), 'svc-releases-'))
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
  t.teardown(() => {
    rmSync(home, { recursive: true, force: true })
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  })
  const names = (): string[] => ['127.0.0.1']
  const { cert, key } = ownIdentity({ x509, home, installId: 'x', names, now: Date.now }).next()!
  return { cert, key }
}

/** Starts a release server and pins the archives' digests. `releases`: archives by tag and file name. */
export async function startReleases (t: TestCase, releases: Record<string, Record<string, Served>>) {
  /** For each request, the archive and the Range header ('' if there was none). */
  const asked: [name: string, range: string][] = []
  const served = Object.values(releases).flatMap((release) => Object.entries(release))
  for (const [name, { bytes, digest = sha256(bytes) }] of served) {
    const before = PINNED[name]
    if (digest === null) delete PINNED[name]
    else PINNED[name] = digest
    t.teardown(() => {
      if (before === undefined) delete PINNED[name]
      else PINNED[name] = before
    })
  }
  const server = createServer(selfSigned(t), (request, response) => {
    const [, kind, tag = '', name = ''] =
      /^\/(releases\/tags|get)\/([^/]+)(?:\/(.+))?$/.exec(request.url!) ?? []
    const release = releases[tag]
    if (release === undefined) response.writeHead(404).end()
    else if (kind === 'get') {
      const first = asked.every(([one]) => one !== name)
      asked.push([name, request.headers.range ?? ''])
      give(response, release[name]!, request.headers.range, first)
    } else {
      response.end(JSON.stringify({ assets: Object.entries(release).map(([name, { bytes, url }]) => ({
        name, size: bytes.length, digest: sha256(bytes),
        browser_download_url: url ?? `https://${request.headers.host!}/get/${tag}/${name}`
      })) }))
    }
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

function give (
  response: ServerResponse, { bytes, cut, hold, whole }: Served, range: string | undefined, first: boolean
): void {
  const start = whole === true || range === undefined ? 0 : Number(/^bytes=(\d+)-$/.exec(range)![1])
  const head = { 'content-length': bytes.length - start }
  if (start === 0) response.writeHead(200, head)
  else {
    const given = `bytes ${start}-${bytes.length - 1}/${bytes.length}`
    response.writeHead(206, { ...head, 'content-range': given })
  }
  const most = first ? cut ?? hold : undefined
  if (most === undefined) response.end(bytes.subarray(start))
  else {
    response.write(bytes.subarray(start, most), () => {
      if (cut !== undefined) setImmediate(() => response.destroy())
    })
  }
}

/** Creates a home whose settings name the release server at `url`. */
export function homeAt (directory: string, url: string): string {
  const home = join(directory, 'home')
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'svc.yaml'), `engines:\n  url: ${url}\n`)
  return home
}

export const underWay = (home: string): string => join(buildsFolder(home, 'llama.cpp'), '.coming')

export async function engine (
  home: string, words: readonly string[], given: { env?: NodeJS.ProcessEnv, signal?: AbortSignal } = {}
): Promise<Ran> {
  return await cli(['engine', ...words, '--home', home],
    { ...given, env: { PATH: '/usr/bin:/bin', ...given.env }, plugins: [llamaCpp] })
}
