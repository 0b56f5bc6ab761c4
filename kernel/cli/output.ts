import { createInterface } from 'node:readline'
import { addAbortSignal, type Readable, type Writable } from 'node:stream'
import { styleText } from 'node:util'
import { unsafe } from '../config/paths.js'

/** Streams, environment and terminal of one `svc` command; tests pass their own. */
export interface Io {
  stdout: Writable & { isTTY?: boolean, columns?: number }
  stderr: Writable & { isTTY?: boolean }
  stdin: Readable & { isTTY?: boolean }
  env: NodeJS.ProcessEnv
  cwd: string
}

/** Output that the user asked for, written to stdout only. */
export interface Out {
  readonly json: boolean
  readonly terminal: boolean
  line (text: string): void
  /** Prints one JSON value, on one line with `--json`, else indented. */
  value (value: unknown): void
  table (headers: readonly string[], rows: readonly (readonly string[])[]): void
  /** Writes raw bytes; resolves when the reader has accepted them. */
  bytes (bytes: Uint8Array): Promise<void>
}

/** Progress messages for people, on stderr. */
export interface Progress {
  line (text: string): void
  /** Replaces the current line on a terminal; no effect elsewhere. */
  update (text: string): void
  /** Finishes the replaceable line, so that the next text starts a new line. */
  end (): void
  /** Colours the text if the terminal supports that and NO_COLOR is not set. */
  paint (style: 'red' | 'green' | 'yellow' | 'bold' | 'dim', text: string): string
}

/** Removes characters that control a terminal or change the writing direction. For names from the network. */
export const clean = (text: string): string => text.replace(unsafe, '')

/** Replaces each run of unsafe characters with a space. For text from another machine inside a sentence. */
export const plain = (text: string): string => text.replace(new RegExp(`${unsafe.source}+`, 'gu'), ' ')

/** Removes unsafe characters except newlines and tabs. */
export const visible = (text: string): string =>
  text.replace(unsafe, (character) => /[\n\t]/.test(character) ? character : '')

/** A column is not cut below this number of characters. */
const NARROWEST = 8

/**
 * Formats columns, padded to the widest cell, without trailing spaces. Where the lines would have more than
 * `columns` characters, the widest columns are cut.
 */
export function formatTable (
  headers: readonly string[], rows: readonly (readonly string[])[], columns = Infinity
): string {
  const all = [headers, ...rows.map((row) => row.map(clean))]
  const widths = headers.map((_, i) => Math.max(...all.map((row) => [...(row[i] ?? '')].length)))
  let over = widths.reduce((sum, width) => sum + width + 2, -2) - columns
  for (; over > 0 && Math.max(...widths) > NARROWEST; over--) widths[widths.indexOf(Math.max(...widths))]!--
  const pad = (cell: string, i: number): string => {
    const letters = [...cell]
    const missing = widths[i]! - letters.length
    return missing < 0 ? `${letters.slice(0, missing - 1).join('')}…` : cell + ' '.repeat(missing)
  }
  return all.map((row) => headers.map((_, i) => pad(row[i] ?? '', i)).join('  ').trimEnd()).join('\n')
}

export function createOut (io: Pick<Io, 'stdout'>, json: boolean): Out {
  const line = (text: string): void => { io.stdout.write(`${text}\n`) }
  return {
    json,
    terminal: io.stdout.isTTY === true,
    line,
    value: (value) => { line(json ? JSON.stringify(value) : JSON.stringify(value, null, 2)) },
    table: (headers, rows) => { line(formatTable(headers, rows, io.stdout.columns)) },
    async bytes (bytes) {
      await new Promise<void>((resolve, reject) => {
        io.stdout.write(bytes, (error) => {
          if (error === null || error === undefined) resolve()
          else reject(error)
        })
      })
    }
  }
}

/** Progress, warnings and colours go to stderr; a line is replaced only on a terminal. */
export function createProgress (io: Pick<Io, 'stderr' | 'env'>): Progress {
  const terminal = io.stderr.isTTY === true
  const coloured = terminal && (io.env['NO_COLOR'] ?? '') === '' && io.env['TERM'] !== 'dumb'
  let open = false
  const end = (): void => {
    if (open) io.stderr.write('\n')
    open = false
  }
  return {
    line (text) {
      end()
      io.stderr.write(`${text}\n`)
    },
    update (text) {
      if (!terminal) return
      io.stderr.write(`\r\x1b[K${text}`)
      open = true
    },
    end,
    paint: (style, text) => coloured ? styleText(style, text, { validateStream: false }) : text
  }
}

interface Asker { readonly io: Io, readonly signal: AbortSignal, fail (code: 130, message: string): Error }

/** True if a user at a terminal can answer questions. */
export function canAsk ({ io }: Pick<Asker, 'io'>): boolean {
  return io.stdin.isTTY === true && io.stderr.isTTY === true
}

/**
 * Asks a question: true for a yes, or for an empty line if `yes` is set. Throws VerbError (130) on Ctrl-C.
 */
export async function confirm (ctx: Asker, question: string, { yes = false } = {}): Promise<boolean> {
  const { stderr } = ctx.io
  stderr.write(`${question} ${yes ? '[Y/n]' : '[y/N]'} `)
  const line = await readLine(ctx)
  if (line !== undefined) return line === '' ? yes : /^y(es)?$/i.test(line)
  stderr.write('\n')
  return false
}

/** The next line of the input, trimmed; undefined at its end. Throws VerbError (130) on Ctrl-C. */
export async function readLine (ctx: Asker): Promise<string | undefined> {
  const { io: { stdin }, signal } = ctx
  // Reads stdin without terminal mode, in which readline would handle Ctrl-C itself.
  const lines = createInterface({ input: stdin, terminal: false, signal })
  try {
    for await (const line of lines) return line.trim()
  } finally {
    lines.close()
  }
  if (signal.aborted) throw ctx.fail(130, 'interrupted')
  return undefined
}

/** Reads piped input, but stops after `most` bytes. */
export async function readPipe (
  { signal, io: { stdin } }: Pick<Asker, 'io' | 'signal'>, most: number
): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of addAbortSignal(signal, stdin)) {
    const bytes = Buffer.from(part as Uint8Array | string)
    parts.push(bytes)
    size += bytes.length
    if (size > most) break
  }
  return Buffer.concat(parts)
}

export interface AdmittedMember { readonly installId: string, readonly name: string }

/** Lists members that a revoked credential or removed member admitted, with the commands that remove them. */
export function offerRemoval (err: Progress, admitted: readonly AdmittedMember[] = []): void {
  for (const { installId, name } of admitted) {
    err.line(`it admitted ${plain(name)}, which stays a member; remove it: svc members remove ${installId}`)
  }
}
