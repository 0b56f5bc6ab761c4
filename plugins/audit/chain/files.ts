import { open, readdir, readFile, stat, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { readRecord, type AuditRecord } from './record.js'

/** `<seq of the first record>.jsonl`, one record per line. */
const NAME = /^(\d{12})\.jsonl$/

/** `bytes`: size of the complete records. */
export interface ChainFile { readonly first: number, bytes: number }

const pathOf = (folder: string, { first }: ChainFile): string =>
  join(folder, `${String(first).padStart(12, '0')}.jsonl`)

/** The files, oldest first, and the newest record. A record that a crash cut off does not count. */
export async function openParts (folder: string): Promise<{ parts: ChainFile[], last: AuditRecord | null }> {
  const names = (await readdir(folder)).filter((name) => NAME.test(name)).sort()
  const parts: ChainFile[] = []
  for (const name of names) {
    const part = { first: Number(NAME.exec(name)![1]), bytes: 0 }
    part.bytes = (await stat(pathOf(folder, part))).size
    parts.push(part)
  }
  for (const part of [...parts].reverse()) {
    const content = await readFile(pathOf(folder, part))
    const whole = content.lastIndexOf(0x0a) + 1
    if (part === parts.at(-1)) part.bytes = whole
    const last = lastOf(content.subarray(0, whole))
    if (last !== null) return { parts, last }
  }
  return { parts, last: null }
}

function lastOf (content: Buffer): AuditRecord | null {
  for (let end = content.byteLength; end > 0;) {
    const start = content.lastIndexOf(0x0a, end - 2) + 1
    const record = readRecord(content.subarray(start, end - 1).toString())
    if (record !== null) return record
    end = start
  }
  return null
}

/** Opens a file for appending; with `fresh`, the file must not exist yet. */
export async function openToWrite (folder: string, part: ChainFile, fresh: boolean): Promise<FileHandle> {
  const file = await open(pathOf(folder, part), fresh ? 'wx' : 'r+', 0o600)
  if (fresh) await syncFolder(folder)
  return file
}

export async function removePart (folder: string, part: ChainFile): Promise<void> {
  await unlink(pathOf(folder, part))
}

async function syncFolder (folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try { await handle.sync() } finally { await handle.close() }
}

export async function firstOf (folder: string, part: ChainFile): Promise<AuditRecord | null> {
  for await (const line of linesOf(folder, [part])) return readRecord(line)
  return null
}

/** The lines up to the current sizes. Opens all files first, in case one is removed. */
export async function * linesOf (folder: string, parts: readonly ChainFile[]): AsyncGenerator<string> {
  const files: { file: FileHandle, bytes: number }[] = []
  try {
    for (const part of parts) files.push({ file: await open(pathOf(folder, part), 'r'), bytes: part.bytes })
    for (const { file, bytes } of files) {
      if (bytes === 0) continue
      yield * splitLines(file.createReadStream({ autoClose: false, start: 0, end: bytes - 1 }))
    }
  } finally {
    for (const { file } of files) await file.close()
  }
}

/** Longest accepted line in bytes; a valid record has at most 8 KiB. */
const LINE_MOST = 64 * 1024

/** Splits bytes into lines. Throws RangeError for a line longer than LINE_MOST. */
export async function * splitLines (bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of bytes) {
    let data: Buffer = rest.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk])
    for (let end = data.indexOf(0x0a); end >= 0; end = data.indexOf(0x0a)) {
      yield data.toString('utf8', 0, end)
      data = data.subarray(end + 1)
    }
    if (data.byteLength > LINE_MOST) throw new RangeError(`a line is longer than ${LINE_MOST} bytes`)
    rest = data
  }
  if (rest.byteLength > 0) yield rest.toString()
}
