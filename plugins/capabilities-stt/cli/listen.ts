import { openAsBlob, existsSync } from 'node:fs'
import { basename, extname, resolve, delimiter, join } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { plain, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { invocationBody, pick, stream, type Listing } from '../../capabilities/cli/invoke.js'
import { spawn } from 'node:child_process'
import { PassThrough } from 'node:stream'
import type { ClientChunk } from '../../../kernel/index.js'
import type { SttEvent } from '../service.js'

const FORMATS = ['text', 'srt', 'vtt', 'json', 'verbose_json']
/** The placed model, by OpenAI's name. */
const DEFAULT_MODEL = 'whisper-1'

type Options = Partial<Record<'output' | 'format' | 'model' | 'language', string>> & { translate?: boolean }

export default {
  async run (ctx, [file], given) {
    const options = given as Options
    const { output = '-', format } = options
    const chosen = format ?? extname(output).slice(1)
    if (format !== undefined && !FORMATS.includes(format)) {
      throw ctx.fail(2, `--format ${format}: the formats are ${FORMATS.join(', ')}`)
    }
    if (file === undefined && format !== undefined && format !== 'text') {
      throw ctx.fail(2, `--format ${format}: for the microphone the format is text`)
    }
    const lines = file === undefined
      ? ofMicrophone(ctx, options)
      : ofFile(ctx, file, FORMATS.includes(chosen) ? chosen : 'text', options)
    if (output === '-') {
      for await (const text of lines) for (const line of text.split('\n')) ctx.out.line(plain(line))
      return
    }
    const sink = ctx.sink(output)
    try {
      for await (const text of lines) await sink.write(Buffer.from(`${text}\n`))
      await sink.keep()
    } catch (error) {
      await sink.drop()
      throw error
    }
  }
} satisfies Verb

async function * ofFile (
  ctx: VerbContext, file: string, format: string, { model = DEFAULT_MODEL, language, translate }: Options
): AsyncGenerator<string> {
  const form = new FormData()
  form.set('model', model)
  form.set('response_format', format)
  if (language !== undefined) form.set('language', language)
  try {
    form.set('file', await openAsBlob(resolve(ctx.io.cwd, file)), basename(file))
  } catch (error) {
    throw ctx.fail(2, `cannot read ${file}: ${(error as Error).message}`)
  }
  const request = new Request('http://svc/', { method: 'POST', body: form })
  const upload = { type: request.headers.get('content-type')!, bytes: request.body! }
  const path = `/v1/audio/${translate === true ? 'translations' : 'transcriptions'}`
  const { bytes } = await ctx.client.open(path, { upload, accept: '*/*', signal: ctx.signal })
  yield (await readAll(bytes)).trimEnd()
}

/** The text of each turn, as it ends; the open one is shown on stderr. Ctrl-C ends the recording. */
async function * ofMicrophone (
  ctx: VerbContext, { model = DEFAULT_MODEL, language, translate }: Options
): AsyncGenerator<string> {
  const recorder = startRecorder(ctx.io.env)
  if (recorder === undefined) {
    throw ctx.fail(2, 'no recorder found (parecord, arecord, rec): install pulseaudio-utils, alsa-utils or ' +
      'sox, or name a file: svc listen FILE')
  }
  ctx.signal.addEventListener('abort', () => { recorder.stop() }, { once: true })
  const payload = {
    model, sample_rate: RECORDED_HZ, ...language === undefined ? {} : { language },
    ...translate === true ? { task: 'translate' } : {}
  }
  try {
    const found = await pick(ctx, await ctx.client.json<Listing>('/v1/capabilities'), { id: 'stt' })
    const body = invocationBody(found, { payload })
    ctx.err.update('listening; Ctrl-C ends')
    for await (const { header } of stream(ctx.client, ctx.signal, body, chunksOf(recorder.bytes))) {
      const found = header.payload as SttEvent | null
      if (found?.event === 'partial') ctx.err.update(plain(found.text))
      if (found?.event !== 'segment' || found.text.trim() === '') continue
      ctx.err.end()
      yield found.text.trim()
    }
  } catch (error) {
    // A recorder that fails ends the request, too.
    const problem = recorder.problem()
    throw problem === undefined ? error : ctx.fail(1, plain(problem))
  } finally {
    recorder.stop()
    ctx.err.end()
  }
}

async function * chunksOf (sound: AsyncIterable<Uint8Array>): AsyncGenerator<ClientChunk> {
  for await (const media of sound) yield { payload: {}, media }
}

/** Sampling rate of recorders, in Hz. */
const RECORDED_HZ = 16_000

/** Programs that write 16-bit little-endian mono samples to stdout, in order of preference. */
const RECORDERS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['parecord', '--raw', '--format=s16le', '--channels=1', `--rate=${RECORDED_HZ}`, '--latency-msec=50'],
  ['arecord', '-q', '-t', 'raw', '-f', 'S16_LE', '-c', '1', '-r', String(RECORDED_HZ)],
  ['rec', '-q', '-t', 'raw', '-e', 'signed', '-b', '16', '-L', '-c', '1', '-r', String(RECORDED_HZ), '-']
]

interface Recorder {
  bytes: AsyncIterable<Uint8Array>
  /** Why it ended, in its own words; undefined while it runs and after `stop`. */
  problem (): string | undefined
  stop (): void
}

/** Starts the first recorder that is installed in the PATH of `env`; undefined if there is none. */
function startRecorder (env: NodeJS.ProcessEnv): Recorder | undefined {
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  const found = RECORDERS.find(([command]) => folders.some((folder) => existsSync(join(folder, command))))
  if (found === undefined) return undefined
  const [command, ...args] = found
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  // Node discards output of an ended process unless it is being read.
  const sound = child.stdout.pipe(new PassThrough())
  let said = ''
  child.stderr.on('data', (part) => { said = (said + String(part)).slice(0, 2000) })
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', (error) => { said = error.message; resolve(1) })
    child.on('close', resolve)
  })
  let problem: string | undefined
  let stopped = false
  return {
    bytes: (async function * () {
      yield * sound as AsyncIterable<Uint8Array>
      if (await ended === 0 || stopped) return
      problem = `${command}: ${said.trim() || 'it ended'}`
      throw new Error(problem)
    })(),
    problem: () => problem,
    stop () {
      stopped = true
      child.kill()
    }
  }
}
