/** Downloads one archive to a file that may hold its beginning already. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { BuildError, reasonOf, request } from './release.js'
import type { PinnedAsset, Source } from './release.js'

export interface DownloadParts extends Omit<Source, 'base'> {
  /** Told of the bytes that are there. */
  onBytes (bytes: number): void
}

/**
 * Brings what `file` lacks of the archive, as often as that gets on, and compares the digest. A file with the
 * wrong one is removed; after another failure the beginning stays for the next time. @throws BuildError
 */
export async function download (asset: PinnedAsset, file: string, parts: DownloadParts): Promise<void> {
  for (let before = -1, here = await sizeOf(file); here < asset.size; here = await sizeOf(file)) {
    if (here <= before) throw new BuildError(`${asset.url} ends too early, at byte ${here} of ${asset.size}`)
    before = here
    try {
      await append(asset, file, here, parts)
    } catch (error) {
      if (parts.signal.aborted || error instanceof BuildError || await sizeOf(file) <= before) throw error
    }
  }
  if (await digestOf(file) === asset.digest && await sizeOf(file) === asset.size) return
  await rm(file, { force: true })
  throw new BuildError(`${asset.name} does not have the digest that it must have (${asset.digest}): it ` +
    'was removed. If that happens again, something between here and there changes what it carries')
}

/** `sha256:` and the hex digits of a file's bytes. */
export async function digestOf (file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(file)) hash.update(bytes as Buffer)
  return `sha256:${hash.digest('hex')}`
}

const sizeOf = async (file: string): Promise<number> => await stat(file).then(({ size }) => size, () => 0)

/** Adds bytes from `start` on, at most as many as the archive lacks; anew where the server gives it whole. */
async function append (
  { url, size, name }: PinnedAsset, file: string, start: number, { onBytes, ...source }: DownloadParts
): Promise<void> {
  const range: Record<string, string> = start === 0 ? {} : { range: `bytes=${start}-` }
  const answer = await request(url, { ...source, headers: { accept: 'application/octet-stream', ...range } })
  const goesOn = answer.status === 206 &&
    (answer.headers.get('content-range') ?? '').startsWith(`bytes ${start}-`)
  if (!answer.ok || (answer.status === 206 && !goesOn)) {
    await answer.body?.cancel()
    throw new BuildError(`${url} answers ${answer.status}`)
  }
  const handle = await open(file, goesOn ? 'a' : 'w', 0o600)
  try {
    let bytes = goesOn ? start : 0
    for await (const chunk of answer.body ?? []) {
      bytes += (chunk as Uint8Array).length
      if (bytes > size) throw new BuildError(`${name} has more than the ${size} bytes that the release says`)
      await write(handle, chunk as Uint8Array)
      onBytes(bytes)
    }
  } catch (error) {
    if (error instanceof BuildError || source.signal.aborted) throw error
    throw new Error(`${url} broke off: ${reasonOf(error)}`, { cause: error })
  } finally {
    await handle.close()
  }
}

/** @throws BuildError where the disk takes no more */
async function write (handle: Awaited<ReturnType<typeof open>>, bytes: Uint8Array): Promise<void> {
  try {
    await handle.writeFile(bytes)
  } catch (error) {
    throw diskError(error)
  }
}

/** What a failed write is told as. */
export function diskError (error: unknown): BuildError {
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  return new BuildError(full ? 'the disk is full: make room in the folder engines of the home, and try again'
    : `cannot write: ${message}`, { cause: error })
}
