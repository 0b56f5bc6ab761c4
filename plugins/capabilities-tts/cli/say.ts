import { existsSync } from 'node:fs'
import { extname, join } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { retryUntil, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { invoke } from '../../capabilities/cli/invoke.js'
import { MEDIA_TYPES } from '../declarations.js'
import { findPlayer, play } from './player.js'

const DEFAULT_MODEL = 'svc/voice-en'

interface Heard { format: string, bytes: number, seconds: number }

interface Target {
  /** Takes the next bytes; `seconds` is the length of all sound so far. */
  write (bytes: Uint8Array, seconds: number): Promise<void>
  keep (): Promise<void>
  drop (): Promise<void>
  done: string | null
}

export default {
  async run (ctx, [words], options) {
    const text = words === '-' ? await readAll(ctx.io.stdin) : words!
    if (text.trim() === '') throw ctx.fail(2, 'the text is empty: svc say "hello"')
    const payload = payloadOf(ctx, text, options)
    const output = options['output'] as string | undefined
    const node = options['node'] as string | undefined
    const format = formatOf(ctx, options)
    const heard: Heard = { format, bytes: 0, seconds: 0 }
    let target: Target | undefined
    try {
      await retryUntil(ctx, () => heard.bytes > 0, async () => {
        for await (const { bytes, seconds } of soundOf(ctx, payload, format, node)) {
          heard.bytes += bytes.byteLength
          heard.seconds = seconds
          target ??= openTarget(ctx, output)
          await target.write(bytes, seconds)
          ctx.err.update(amount(heard))
        }
      })
      await target?.keep()
    } catch (error) {
      await target?.drop()
      throw error
    }
    ctx.err.end()
    if (target === undefined) throw ctx.fail(1, 'the node sent no audio')
    if (target.done !== null) ctx.err.line(`${target.done}: ${amount(heard)}`)
  }
} satisfies Verb

function amount ({ format, bytes, seconds }: Heard): string {
  const name = format.toUpperCase()
  return seconds > 0 ? `${seconds.toFixed(1)} s of ${name}, ${bytes} bytes` : `${bytes} bytes of ${name}`
}

/** The format in `--format`, else of the output's extension, else MP3. Throws CliError (2). */
function formatOf (ctx: VerbContext, { output, format, node }: Record<string, unknown>): string {
  const given = String(format ?? extname(String(output ?? '')).slice(1)).toLowerCase()
  // Opus is sent in an Ogg container.
  const found = given === '' ? 'mp3' : given === 'ogg' ? 'opus' : given
  const from = format === undefined ? `-o ${String(output)}` : `--format ${String(format)}`
  if (!Object.hasOwn(MEDIA_TYPES, found)) {
    const names = Object.keys(MEDIA_TYPES).join(', ')
    throw ctx.fail(2, `${from}: the formats are ${names}; --format names one for any file`)
  }
  if (found === 'mp3') return found
  if (node !== undefined) throw ctx.fail(2, `${from}: with --node the format is mp3`)
  if (output === undefined && ctx.out.terminal) throw ctx.fail(2, `${from}: needs -o FILE or a pipe`)
  return found
}

/** The sound in pieces; `seconds` is the length of all sound so far, 0 if unknown. */
async function * soundOf (
  ctx: VerbContext, payload: Record<string, unknown>, format: string, node: string | undefined
): AsyncGenerator<{ bytes: Uint8Array, seconds: number }> {
  if (format !== 'mp3') {
    // The capability streams MP3 only, but OpenAI's route has all formats.
    const { text: input, ...more } = payload
    const { bytes } = await ctx.client.open('/v1/audio/speech',
      { body: { ...more, input, response_format: format }, accept: '*/*', signal: ctx.signal })
    for await (const part of bytes) yield { bytes: part, seconds: 0 }
    return
  }
  const call = { id: 'tts', version: '1.0.0', payload, ...(node === undefined ? {} : { node }) }
  for await (const { header, media } of invoke(ctx, call)) {
    if (media === null || header.media === null) continue
    const { timestamp_seconds: start, duration_seconds: length } = header.media
    yield { bytes: media, seconds: start + length }
  }
}

function payloadOf (
  ctx: VerbContext, text: string, options: Record<string, unknown>
): Record<string, unknown> {
  const { model = DEFAULT_MODEL, voice, speed } = options as Record<string, string | undefined>
  if (speed !== undefined && !(Number(speed) > 0)) {
    throw ctx.fail(2, `--speed ${speed}: expected a number above 0`)
  }
  return {
    model, text, ...(voice === undefined ? {} : { voice }),
    ...(speed === undefined ? {} : { speed: Number(speed) })
  }
}

function freeName (folder: string): string {
  let [name, n] = ['speech.mp3', 1]
  while (existsSync(join(folder, name))) name = `speech-${++n}.mp3`
  return name
}

/** Selects the output: a file, stdout, a player, or speech.mp3; never writes bytes to a terminal. */
function openTarget (ctx: VerbContext, output: string | undefined): Target {
  if (output !== undefined) return toFile(ctx, output, output === '-' ? null : output)
  if (!ctx.out.terminal) return toFile(ctx, '-', null)
  const player = findPlayer(ctx.io.env['PATH'] ?? '')
  if (player === undefined) {
    const path = freeName(ctx.io.cwd)
    return toFile(ctx, path, `no player found (ffplay, mpv, mpg123, afplay); written to ${path}`)
  }
  const playing = play(player, ctx.io.env)
  ctx.signal.addEventListener('abort', () => { playing.stop() }, { once: true })
  const parts: Uint8Array[] = []
  let problem: string | undefined
  const fallen = (error: unknown): void => { problem ??= (error as Error).message }
  const target: Target = {
    async write (bytes, seconds) {
      parts.push(bytes)
      if (problem === undefined) await playing.write(bytes, seconds).catch(fallen)
    },
    async keep () {
      const all = Buffer.concat(parts)
      if (problem === undefined) await playing.end(all).catch(fallen)
      if (ctx.signal.aborted) throw ctx.fail(130, 'interrupted')
      if (problem === undefined) return
      const why = problem === '' ? '' : ` (${problem})`
      const path = freeName(ctx.io.cwd)
      const file = toFile(ctx, path, `no sound device${why}; written to ${path}`)
      await file.write(all, 0)
      await file.keep()
      target.done = file.done
    },
    drop: async () => { playing.stop() },
    done: null
  }
  return target
}

function toFile (ctx: VerbContext, path: string, done: string | null): Target {
  const sink = ctx.sink(path)
  return { write: (bytes) => sink.write(bytes), keep: () => sink.keep(), drop: () => sink.drop(), done }
}
