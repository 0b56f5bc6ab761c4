/** Names, URLs and digests of llama.cpp releases. */
import { fetch, type Dispatcher } from 'undici'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { parseJson } from '../../../kernel/api/schema.js'

/** A failed installation, described for the user; `wrong` if the arguments are invalid. */
export class BuildError extends Error {
  readonly wrong: boolean
  constructor (message: string, { wrong = false, cause }: { wrong?: boolean, cause?: unknown } = {}) {
    super(message, { cause })
    this.wrong = wrong
  }
}

/** The llama.cpp release that svc is tested with (see test/llama); corresponds to version 0.5.0. */
export const KNOWN_TAG = 'b11146'
const archive = (name: string): string => `llama-${KNOWN_TAG}-bin-${name}.tar.gz`
/**
 * SHA-256 of KNOWN_TAG's archives, as several public projects recorded them from GitHub. They are pinned,
 * because digests from the server that sends the files would not reveal changed files.
 */
export const PINNED: Record<string, string> = {
  [archive('ubuntu-x64')]: 'c150306eb16b5ab696f76a8bdf810c35fd98a24e82158742e6fa28f420ff8410',
  [archive('ubuntu-arm64')]: '4aeda6fe68831547e49b7fa87607383ca5352b3d72ca5f70d52ed265f58c131f',
  [archive('ubuntu-vulkan-x64')]: 'd3ce40fce7403cc93bcf5718fc46c6efb61ed9709f8e5d9f10c86bf0e30e8fb3',
  [archive('ubuntu-vulkan-arm64')]: '5dcebe3ecbcb43a1ed85e3284453f9edf54dcca833e1cb1f54b4022b753c1da5',
  [archive('ubuntu-cuda-12.8-x64')]: 'c2ab9e19838513ff69d1af8d999ad717dd3c7ee4714ac04c7ed5ab9077c50e4e',
  ['cudart-' + archive('ubuntu-cuda-12.8-x64')]:
    '1466daea60aad1144819e151b2bae19d54556cf1da6c129c4f55a5ded2637c25',
  [archive('macos-arm64')]: '1ad3f9eff80edb9dbef4259ad564d1720612ef7eea48fa4afed0e54f5f3d5711',
  [archive('macos-x64')]: '305f0e3a17d2c01eb205cd0a62128357f1ec3b55329cb084d94e5ec0115d7a3b'
}
export const BACKENDS = ['cpu', 'metal', 'vulkan', 'cuda'] as const
export type BuildBackend = (typeof BACKENDS)[number]

/** Platform and architecture, named as in Node's `process`. */
export interface Machine { platform: string, arch: string }

export interface Asset { name: string, url: string, size: number }

/** An asset with a trusted digest: `sha256:` and 64 hexadecimal digits. */
export interface PinnedAsset extends Asset { digest: string }

const SYSTEMS: Readonly<Record<string, string>> = { linux: 'ubuntu', darwin: 'macos' }
const MOST_JSON_BYTES = 4 * 2 ** 20
const MOST_BYTES = 4 * 2 ** 30

/**
 * The given backend, or the machine's usual one. @throws BuildError if llama.cpp has no build with the given
 * backend for the machine
 */
export function backendFor (given: string | undefined, machine: Machine, nvidia: boolean): BuildBackend {
  const { platform, arch } = machine
  if (SYSTEMS[platform] === undefined || !['x64', 'arm64'].includes(arch)) {
    throw new BuildError(`there is no build of llama.cpp for ${platform} on ${arch}: compile it, and set ` +
      'SVC_LLAMA_SERVER_BIN to its llama-server')
  }
  const usual = platform === 'darwin' ? arch === 'arm64' ? 'metal' : 'cpu' : nvidia ? 'cuda' : 'cpu'
  const backend = BACKENDS.find((one) => one === (given ?? usual))
  const there: readonly BuildBackend[] = platform === 'linux' ? ['cpu', 'vulkan', 'cuda']
    : arch === 'arm64' ? ['cpu', 'metal'] : ['cpu']
  if (backend !== undefined && there.includes(backend)) return backend
  throw new BuildError(`--backend ${given ?? usual}: this machine supports ${there.join(', ')}`,
    { wrong: true })
}

/** Validates a release tag. @throws BuildError */
export function tagFor (given: string): string {
  if (/^b[1-9]\d{0,8}$/.test(given)) return given
  throw new BuildError(`--build ${given}: expected a tag such as ${KNOWN_TAG}`, { wrong: true })
}

const ENDING = 'tar\\.gz'
const OFFICIAL =
  new RegExp(`^llama-(b\\d+)-bin-(ubuntu|macos)-(?:(vulkan|cuda-[\\d.]+)-)?(x64|arm64)\\.${ENDING}$`)

/** Reads the tag and backend from the name of an official archive; null for any other name. Pure. */
export function readName (name: string): { tag: string, backend: BuildBackend | undefined } | null {
  const found = OFFICIAL.exec(name)
  if (found === null) return null
  const [, tag, system, built, arch] = found
  const plain = system === 'macos' && arch === 'arm64' ? 'metal' : 'cpu'
  return { tag: tag!, backend: BACKENDS.find((one) => one === (built ?? plain).split('-')[0]) }
}

/**
 * The archives of a release that form a build, the one with the programs first. If there are several CUDA
 * builds, picks the oldest CUDA version, which runs with the oldest drivers. Pure. @throws BuildError
 */
export function assetsFor (
  assets: readonly Asset[], tag: string, { platform, arch }: Machine, backend: BuildBackend
): Asset[] {
  const variant = backend === 'cuda' ? 'cuda-(\\d+\\.\\d+)-' : backend === 'vulkan' ? 'vulkan-' : ''
  const stem = `^llama-${tag}-bin-${SYSTEMS[platform]!}-${variant}${arch}\\.`
  const wanted = new RegExp(`${stem}${ENDING}$`)
  const found = assets.flatMap((asset) => {
    const match = wanted.exec(asset.name)
    return match === null ? [] : [{ asset, version: Number(match[1] ?? 0) }]
  }).sort((a, b) => a.version - b.version)
  const main = found[0]?.asset
  if (main === undefined) {
    const zipped = assets.find(({ name }) => new RegExp(`${stem}zip$`).test(name))
    if (zipped !== undefined) throw zip(`release ${tag} has ${zipped.name} only, which`)
    throw new BuildError(`release ${tag} of llama.cpp has no build for ${backend} on ${platform}, ${arch}`)
  }
  if (backend !== 'cuda') return [main]
  // The archive with CUDA's libraries, which must be beside the programs.
  const libraries = assets.find(({ name }) => name === `cudart-${main.name}`)
  if (libraries === undefined) throw new BuildError(`release ${tag} has no cudart-${main.name}`)
  return [main, libraries]
}

/** The error for a ZIP archive: a build for Windows, which svc does not support, or an old release. */
const zip = (what: string): BuildError => new BuildError(`${what} is a ZIP archive. svc reads only the ` +
  '.tar.gz archives of newer releases: use one of those with --build or --from, or unpack ' +
  'the ZIP yourself and set SVC_LLAMA_SERVER_BIN to its llama-server', { wrong: true })

/** @throws BuildError for the name of a ZIP archive */
export function refuseZip (name: string): void { if (/\.zip$/i.test(name)) throw zip(name) }

export interface Source { base: string, signal: AbortSignal, dispatcher: Dispatcher }

/** Lists the archives of a release from GitHub's API or a mirror. @throws BuildError */
export async function readRelease ({ base, signal, dispatcher }: Source, tag: string): Promise<Asset[]> {
  const url = `${base.replace(/(?<!\/)\/+$/, '')}/releases/tags/${tag}`
  const headers = { accept: 'application/vnd.github+json' }
  const answer = await request(url, { signal, dispatcher, headers })
  if (answer.status === 404) throw new BuildError(`there is no release ${tag} at ${base}`)
  if (!answer.ok) {
    const limit = answer.status === 403 || answer.status === 429
    const why = limit ? ', possibly its hourly rate limit' : ''
    throw new BuildError(`${url} responded with status ${answer.status}${why}: ` +
      'retry later, or download the archive elsewhere and add it with --from FILE')
  }
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += (chunk as Uint8Array).length
    if (bytes > MOST_JSON_BYTES) throw new BuildError(`${url} returned more than ${MOST_JSON_BYTES} bytes`)
    chunks.push(chunk as Uint8Array)
  }
  return readAssets(Buffer.concat(chunks).toString(), url)
}

/** Parses a release from GitHub's API. Pure. @throws BuildError */
export function readAssets (text: string, url: string): Asset[] {
  const { assets } = (parseJson(text) ?? {}) as { assets?: unknown }
  if (!Array.isArray(assets)) throw new BuildError(`${url} is not a release of GitHub's API`)
  return assets.flatMap((asset: Record<string, unknown>) => {
    const { name, browser_download_url: from, size } = asset
    return typeof name === 'string' && typeof from === 'string' && typeof size === 'number'
      ? [{ name, url: from, size }] : []
  })
}

/** Adds the trusted digest to an archive. @throws BuildError if it is unknown or the archive is too large */
export function verifiedAsset (asset: Asset, sha256: string | undefined): PinnedAsset {
  const known = sha256 ?? PINNED[asset.name]
  if (known === undefined) {
    throw new BuildError(`svc does not know the SHA-256 of ${asset.name}, and does not trust its server: ` +
      'pass --sha256 from another source of the publisher, leave out --build and --backend for a ' +
      'build that svc knows, or add a file with --from FILE')
  }
  const digest = digestFor(known)
  if (asset.size > 0 && asset.size <= MOST_BYTES) return { ...asset, digest }
  throw new BuildError(`${asset.name} has an invalid size in the release: ${asset.size} bytes`)
}

/** Normalises to `sha256:` and lower case. @throws BuildError for an invalid SHA-256 */
export function digestFor (sha256: string): string {
  const hex = sha256.replace(/^sha256:/i, '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(hex)) return `sha256:${hex}`
  throw new BuildError(`--sha256 ${sha256}: expected 64 hexadecimal digits`, { wrong: true })
}

/** Sends a GET that follows redirects. @throws BuildError if the server cannot be reached */
export async function request (
  url: string, { signal, dispatcher, headers }: Pick<Source, 'signal' | 'dispatcher'> &
    { headers: Record<string, string> }
): Promise<Awaited<ReturnType<typeof fetch>>> {
  return await fetch(url, { signal, headers: { 'user-agent': 'svc', ...headers }, dispatcher })
    .catch((error: unknown) => {
      if (signal.aborted) throw error
      throw new BuildError(`${url} cannot be read: ${reasonOf(error)}`, { cause: error })
    })
}

/** The cause of a fetch error, whose own message is only "fetch failed". */
export function reasonOf (error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error && cause.message !== '' ? cause.message : message
}

interface DownloadParts extends Omit<Source, 'base'> {
  /** Receives the number of bytes downloaded so far, including those from earlier attempts. */
  onBytes (bytes: number): void
}

/**
 * Fetches the missing bytes, retries while each attempt makes progress, and compares the digest. Removes a
 * file with a wrong digest; keeps a partial file after other errors, for the next call. @throws BuildError
 */
export async function download (asset: PinnedAsset, file: string, parts: DownloadParts): Promise<void> {
  for (let before = -1, here = await sizeOf(file); here < asset.size; here = await sizeOf(file)) {
    if (here <= before) {
      throw new BuildError(`the download of ${asset.url} ended early, at byte ${here} of ${asset.size}`)
    }
    before = here
    try {
      await append(asset, file, here, parts)
    } catch (error) {
      if (parts.signal.aborted || error instanceof BuildError || await sizeOf(file) <= before) throw error
    }
  }
  if (await digestOf(file) === asset.digest && await sizeOf(file) === asset.size) return
  await rm(file, { force: true })
  throw new BuildError(`${asset.name} does not have the expected digest (${asset.digest}) and ` +
    'was removed. If that happens again, something on the network path modifies the download')
}

/** The SHA-256 of a file, as `sha256:` and hexadecimal digits. */
export async function digestOf (file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(file)) hash.update(bytes as Buffer)
  return `sha256:${hash.digest('hex')}`
}

const sizeOf = async (file: string): Promise<number> => await stat(file).then(({ size }) => size, () => 0)

/**
 * Downloads the bytes from `start` on, never more than the archive's size. Starts over if the server ignores
 * the Range header.
 */
async function append (
  { url, size, name }: PinnedAsset, file: string, start: number, { onBytes, ...source }: DownloadParts
): Promise<void> {
  const range: Record<string, string> = start === 0 ? {} : { range: `bytes=${start}-` }
  const answer = await request(url, { ...source, headers: { accept: 'application/octet-stream', ...range } })
  const goesOn = answer.status === 206 &&
    (answer.headers.get('content-range') ?? '').startsWith(`bytes ${start}-`)
  if (!answer.ok || (answer.status === 206 && !goesOn)) {
    await answer.body?.cancel()
    throw new BuildError(`${url} responded with status ${answer.status}`)
  }
  const handle = await open(file, goesOn ? 'a' : 'w', 0o600)
  try {
    let bytes = goesOn ? start : 0
    for await (const chunk of answer.body ?? []) {
      bytes += (chunk as Uint8Array).length
      if (bytes > size) throw new BuildError(`${name} is larger than the ${size} bytes of the release`)
      await handle.writeFile(chunk as Uint8Array).catch((error: unknown) => { throw diskError(error) })
      onBytes(bytes)
    }
  } catch (error) {
    if (error instanceof BuildError || source.signal.aborted) throw error
    throw new Error(`the download of ${url} broke off: ${reasonOf(error)}`, { cause: error })
  } finally { await handle.close() }
}

/** The BuildError for a failed write; says so if the disk is full. */
export function diskError (error: unknown): BuildError {
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  return new BuildError(full ? 'the disk is full: free space in the folder engines of the home and retry'
    : `cannot write: ${message}`, { cause: error })
}
