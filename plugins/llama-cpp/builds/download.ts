/** Downloads an archive, and resumes partial downloads. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { BuildError, reasonOf, request } from './release.js'
import type { PinnedAsset, Source } from './release.js'

export interface DownloadParts extends Omit<Source, 'base'> {
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
      await write(handle, chunk as Uint8Array)
      onBytes(bytes)
    }
  } catch (error) {
    if (error instanceof BuildError || source.signal.aborted) throw error
    throw new Error(`the download of ${url} broke off: ${reasonOf(error)}`, { cause: error })
  } finally {
    await handle.close()
  }
}

/** @throws BuildError if the disk is full or fails */
async function write (handle: Awaited<ReturnType<typeof open>>, bytes: Uint8Array): Promise<void> {
  try {
    await handle.writeFile(bytes)
  } catch (error) {
    throw diskError(error)
  }
}

/** The BuildError for a failed write; says so if the disk is full. */
export function diskError (error: unknown): BuildError {
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  return new BuildError(full ? 'the disk is full: free space in the folder engines of the home and retry'
    : `cannot write: ${message}`, { cause: error })
}
