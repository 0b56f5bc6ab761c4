/** Reads a form with one file, which may come before or after its fields. */
import { mkdir, open, rm, type FileHandle } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import { badField, deadline, kernelError, raceAbort, SvcError, type Clock } from '../../kernel/index.js'

/** A file up to this size in bytes stays in memory. */
const IN_MEMORY = 2 ** 20
/** Longest pause of a client in ms. */
const IDLE_MS = 30_000
const READ = 256 * 1024
const LIMITS = {
  fields: 64, fieldNameSize: 100, fieldSize: 64 * 1024, files: 1, parts: 65, headerPairs: 32, headerSize: 4096
}

export type Form = Awaited<ReturnType<typeof readForm>>

export interface FormOptions {
  /** Folder for large files, which lose their name at once. */
  folder: string
  /** Maximum size of the file in bytes. */
  limit: number
  clock: Clock
}

/**
 * Reads a form to its end; `read` reads its file from the start, `close` frees it, once. Throws
 * `invalid_request` naming the field, `payload_too_large`, `timeout` if no byte comes for 30 s, and the error
 * of a client that breaks off.
 */
export async function readForm (
  body: AsyncIterable<Uint8Array>, contentType: string, options: FormOptions
) {
  const spool = new Spool(options)
  try {
    const fields = await parse(steady(body, options.clock), contentType, spool)
    if (!spool.written) throw badField('file', 'is required')
    return { fields, read: () => spool.read(), close: async () => { await spool.close() } }
  } catch (error) {
    await spool.close()
    if (error instanceof SvcError) throw error
    const why = (error as Error).message.replace(/\.?\.$/, '')
    throw kernelError('invalid_request', `The form cannot be read: ${why}.`)
  }
}

async function * steady (body: AsyncIterable<Uint8Array>, clock: Clock): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  for (;;) {
    const { signal, stop } = deadline(clock, IDLE_MS,
      () => kernelError('timeout', `No byte of the form came for ${IDLE_MS / 1000} s.`))
    const step = await raceAbort(pieces.next(), signal).finally(stop)
    if (step.done === true) return
    yield step.value
  }
}

async function parse (
  body: AsyncIterable<Uint8Array>, contentType: string, spool: Spool
): Promise<ReadonlyMap<string, readonly string[]>> {
  const parser = new Busboy({ headers: { 'content-type': contentType }, limits: LIMITS })
  const fields = new Map<string, string[]>()
  const refuse = (error: SvcError): void => { parser.destroy(error) }
  parser.on('field', (name, value, cutName, cutValue) => {
    if (cutName || cutValue) refuse(badField(name.slice(0, 100), 'is too long'))
    fields.set(name, [...fields.get(name) ?? [], value])
  })
  parser.on('file', (name, stream) => {
    if (name !== 'file') refuse(badField(name, 'is a file; only the field file may be one'))
    spool.write(stream).catch(refuse)
  })
  parser.on('filesLimit', () => { refuse(badField('file', 'must be one file')) })
  for (const event of ['partsLimit', 'fieldsLimit'] as const) {
    parser.on(event, () => { refuse(kernelError('invalid_request', 'The form has more than 64 fields.')) })
  }
  await pipeline(body, parser)
  await spool.done
  return fields
}

/** Bytes in memory, or in a file without a name if they are many. */
class Spool {
  done: Promise<void> | undefined
  readonly #options: FormOptions
  #parts: Buffer[] = []
  #size = 0
  #file: FileHandle | undefined
  #stream: BusboyFileStream | undefined

  constructor (options: FormOptions) { this.#options = options }

  get written (): boolean { return this.done !== undefined }

  write (stream: BusboyFileStream): Promise<void> {
    this.#stream = stream
    return this.done = this.#write(stream)
  }

  async #write (stream: BusboyFileStream): Promise<void> {
    const { limit } = this.#options
    for await (const part of stream as AsyncIterable<Buffer>) {
      this.#size += part.byteLength
      if (this.#size > limit) {
        const message = `The file is larger than ${limit} bytes.`
        throw kernelError('payload_too_large', message, { limit_bytes: limit })
      }
      if (this.#file === undefined && this.#size <= IN_MEMORY) this.#parts.push(Buffer.from(part))
      else await this.#append(part)
    }
  }

  async #append (part: Buffer): Promise<void> {
    if (this.#file === undefined) {
      const { folder } = this.#options
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const path = join(folder, `upload-${randomUUID()}`)
      this.#file = await open(path, 'wx+', 0o600)
      await rm(path)
      for (const earlier of this.#parts.splice(0)) await this.#file.write(earlier)
    }
    await this.#file.write(part)
  }

  async * read (): AsyncGenerator<Uint8Array> {
    if (this.#file === undefined) return yield * this.#parts
    for (let at = 0; at < this.#size;) {
      const { bytesRead, buffer } = await this.#file.read(Buffer.alloc(READ), 0, READ, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }

  async close (): Promise<void> {
    // After an error the parser does not end its stream.
    this.#stream?.destroy()
    await this.done?.catch(() => {})
    this.#parts = []
    await this.#file?.close()
    this.#file = undefined
  }
}
