import t from 'tap'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  cli, frames, listed, listing, sendError, sendJson, standIn, type Given
} from '../../../kernel/test/cli-helpers.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPlayer, play } from '../cli/player.js'
import staging from '../../staging/index.js'
import tts from '../index.js'

const sound = frames({ kind: 'started' }, { kind: 'chunk', payload: {}, bytes: 'MP3-one ' },
  { kind: 'chunk', payload: {}, bytes: 'MP3-two' }, { kind: 'completed' })
const capabilities = listing(listed({ id: 'tts' }))

/** A player that saves its input in the file `heard` beside the script. */
const script = '#!/bin/sh\ncat > "$(dirname "$0")/heard"\n'

t.test('where the sound goes', async (t) => {
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, capabilities) },
    'POST /v1/capabilities/stream': (response) => { response.end(sound) }
  })
  const cwd = t.testdir({ bin: { ffplay: script }, none: {} })
  chmodSync(join(cwd, 'bin/ffplay'), 0o755)
  const say = async (words: string[], given: Given = {}): ReturnType<typeof cli> =>
    await cli(['say', ...words, '--url', node.url], { plugins: [tts], cwd, ...given })
  const file = await say(['Hello', '-o', 'hello.mp3', '--voice', 'slt', '--speed', '1.5'])
  t.equal(file.status, 0, file.err)
  t.equal(file.out, '')
  t.match(file.err, /hello\.mp3: 3\.0 s of MP3, 15 bytes/)
  t.equal(readFileSync(join(cwd, 'hello.mp3'), 'utf8'), 'MP3-one MP3-two')
  t.match(node.asked.at(-1)?.body, { capability_id: 'tts',
    payload: { model: 'svc/voice-en', text: 'Hello', voice: 'slt', speed: 1.5 } })
  t.notOk('target_node' in (node.asked.at(-1)!.body as object))
  await say(['Hello', '--node', 'beta'])
  t.match(node.asked.at(-1)?.body, { capability_id: 'tts', target_node: 'beta' })
  t.equal(node.asked.at(-2)?.url, '/v1/capabilities?node_id=beta')
  t.equal((await say(['Hello'])).bytes.toString(), 'MP3-one MP3-two', 'a pipe gets the bytes')
  await say(['-', '--model', 'a/b'], { stdin: 'from a pipe' })
  t.match(node.asked.at(-1)?.body, { payload: { model: 'a/b', text: 'from a pipe' } })
  const PATH = process.env['PATH']!
  const played = await say(['Hello'], { terminal: true, env: { PATH: `${join(cwd, 'bin')}:${PATH}` } })
  t.equal(played.status, 0, played.err)
  t.equal(played.out, '', 'never bytes on a terminal')
  t.equal(readFileSync(join(cwd, 'bin/heard'), 'utf8'), 'MP3-one MP3-two')
  const kept = await say(['Hello'], { terminal: true, env: { PATH: join(cwd, 'none') } })
  t.equal(kept.out, '')
  t.match(kept.err, /no player found .*speech\.mp3/)
  t.equal(readFileSync(join(cwd, 'speech.mp3'), 'utf8'), 'MP3-one MP3-two')
  const again = await say(['Hello'], { terminal: true, env: { PATH: join(cwd, 'none') } })
  t.match(again.err, /written to speech-2\.mp3/, 'a file that is there stays')
})

t.test('the extension of the file decides the format, unless --format does', async (t) => {
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, capabilities) },
    'POST /v1/capabilities/stream': (response) => { response.end(sound) },
    'POST /v1/audio/speech': (response, { body }) => {
      response.end(`sound in ${(body as { response_format: string }).response_format}`)
    }
  })
  const cwd = t.testdir({})
  const formats = 'mp3, opus, aac, flac, wav, pcm'
  const rows: [words: string, status: number, err: RegExp, text?: string][] = [
    ['-o x.wav', 0, /x\.wav: 12 bytes of WAV/, 'sound in wav'],
    ['-o X.FLAC', 0, /bytes of FLAC/, 'sound in flac'],
    ['-o x.ogg', 0, /bytes of OPUS/, 'sound in opus'],
    ['-o x.mp3', 0, /3\.0 s of MP3/, 'MP3-one MP3-two'],
    ['-o plain', 0, /3\.0 s of MP3/, 'MP3-one MP3-two'],
    ['-o y.wav --format mp3', 0, /3\.0 s of MP3/, 'MP3-one MP3-two'],
    ['-o x.bin --format pcm', 0, /bytes of PCM/, 'sound in pcm'],
    ['-o x.txt', 2, new RegExp(`-o x\\.txt: the formats are ${formats}; --format names one`)],
    ['-o x.wav --format tiff', 2, new RegExp(`--format tiff: the formats are ${formats}`)],
    ['-o x.wav --node beta', 2, /with --node the format is mp3/]
  ]
  for (const [words, status, err, text] of rows) {
    const ran = await cli(['say', 'Hello', ...words.split(' '), '--voice', 'slt', '--url', node.url],
      { plugins: [tts], cwd })
    t.match(ran, { status, err, out: '' }, words)
    if (text !== undefined) t.equal(readFileSync(join(cwd, words.split(' ')[1]!), 'utf8'), text, words)
  }
  t.match(node.asked.find(({ url }) => url === '/v1/audio/speech')?.body,
    { model: 'svc/voice-en', input: 'Hello', voice: 'slt', response_format: 'wav' })
  const piped = await cli(['say', 'x', '--format', 'wav', '--url', node.url], { plugins: [tts], cwd })
  t.equal(piped.out, 'sound in wav')
  const shown = await cli(['say', 'x', '--format', 'wav', '--url', node.url],
    { plugins: [tts], cwd, terminal: true })
  t.match(shown, { status: 2, err: /needs -o FILE or a pipe/ })
})

t.test('what is wrong is told', async (t) => {
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, capabilities) },
    'POST /v1/capabilities/stream': (response, { body }) => {
      const { payload } = body as { payload: { model: string } }
      const chunk = { kind: 'chunk', payload: {}, bytes: 'MP3' }
      if (payload.model === 'cut/off') response.end(frames({ kind: 'started' }, chunk))
      else if (payload.model === 'no/sound') response.end(frames({ kind: 'started' }, { kind: 'completed' }))
      else if (payload.model === 'fi/ne') response.end(sound)
      else sendError(response, 404, 'no_instance')
    },
    'GET /readyz': (response) => { sendJson(response, { ready: true, checks: [] }) }
  })
  const cwd = t.testdir({ bin: { ffplay: '#!/bin/sh\nexit 3\n' } })
  chmodSync(join(cwd, 'bin/ffplay'), 0o755)
  const check = async (words: string[], status: number, err: RegExp): Promise<void> => {
    const ran = await cli(['say', ...words, '--url', node.url], { plugins: [tts], cwd, stdin: '  ' })
    t.match(ran, { status, err, out: '' }, words.join(' '))
  }
  await check(['', '-o', 'a.mp3'], 2, /text is empty/)
  await check(['-', '-o', 'a.mp3'], 2, /text is empty/)
  await check(['x', '--speed', 'fast'], 2, /--speed fast: expected a number above 0/)
  await check(['x', '--model', 'un/known', '-o', 'a.mp3'], 3, /no_instance/)
  await check(['x', '--model', 'cut/off', '-o', 'a.mp3'], 1, /ended early/)
  await check(['x', '--model', 'no/sound', '-o', 'a.mp3'], 1, /sent no audio/)
  t.same(readdirSync(cwd), ['bin'], 'no file is left')
  const sour = await cli(['say', 'x', '--model', 'fi/ne', '--url', node.url],
    { plugins: [tts], cwd, terminal: true, env: { PATH: join(cwd, 'bin') } })
  t.equal(sour.status, 0)
  t.match(sour.err, 'no sound device (ffplay exited with status 3); written to speech.mp3: 3.0 s of MP3')
  t.equal(readFileSync(join(cwd, 'speech.mp3'), 'utf8'), 'MP3-one MP3-two')
})

t.test('the plugin of its capability is off', async (t) => {
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, listing()) },
    'GET /models/copies': (response) => { sendJson(response, { copies: [] }) },
    'GET /v1/models': (response) => { sendJson(response, { object: 'list', data: [] }) }
  })
  const argv = ['say', 'x', '-o', 'a.mp3', '--url', node.url]
  const ran = await cli(argv, { plugins: [tts], cwd: t.testdir({}) })
  const err = /the plugin capabilities-tts, which provides it, is disabled there\n.*plugin enable/
  t.match(ran, { status: 3, err })
  t.match(await cli(['ls', '--url', node.url], { plugins: [staging, tts] }),
    { status: 0, err: /the plugin capabilities-tts, which provides svc\/voice-en, is off/ })
})

t.test('it waits while the node is starting', async (t) => {
  let asked = 0
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, capabilities) },
    'GET /readyz': (response) => { sendError(response, 503, 'not_ready') },
    'POST /v1/capabilities/stream': (response) => {
      asked++
      if (asked === 1) sendError(response, 404, 'no_instance')
      else if (asked === 2) sendError(response, 503, 'not_ready')
      else response.end(sound)
    }
  })
  const ran = await cli(['say', 'x', '--url', node.url], { plugins: [tts] })
  t.equal(ran.status, 0, ran.err)
  t.equal(ran.bytes.toString(), 'MP3-one MP3-two')
  t.equal(asked, 3)
  asked = 0
  t.equal((await cli(['say', 'x', '--url', node.url, '--wait=0'], { plugins: [tts] })).status, 3)
  t.equal(asked, 1, 'with --wait=0 it does not')
})

/** A player that ignores signals, starts a child, and never plays. */
const hangs = `#!/bin/sh
trap '' TERM INT
echo 'ALSA lib: cannot find card 0' >&2
sleep 1000 &
echo "$$ $!" > "$(dirname "$0")/pids.new"
mv "$(dirname "$0")/pids.new" "$(dirname "$0")/pids"
wait`

/** Resolves when all of the player's processes have ended. */
async function gone (folder: string): Promise<void> {
  const pids = readFileSync(join(folder, 'pids'), 'utf8').trim().split(' ').map(Number)
  const alive = (pid: number): boolean => {
    try { process.kill(pid, 0) } catch { return false }
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  }
  while (pids.some(alive)) await sleep(10)
}

t.test('without a sound device it ends, in a file, and leaves no player', async (t) => {
  const megabyte = Buffer.alloc(2 ** 20)
  for (const [command, file] of [['ffplay', 'stdin'], ['afplay', 'file']] as const) {
    const bin = t.testdir({ [command]: hangs })
    chmodSync(join(bin, command), 0o755)
    const player = findPlayer(bin)!
    t.equal(player.reads, file)
    const playing = play(player, { PATH: `${bin}:/usr/bin:/bin` }, 200)
    const wrote = playing.write(megabyte, 0.8).then(async () => { await playing.end(megabyte) })
    await t.rejects(wrote, { message: /^$/ })
    await gone(bin)
  }
  const cwd = t.testdir({ bin: { mpv: hangs } })
  chmodSync(join(cwd, 'bin/mpv'), 0o755)
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, capabilities) },
    'POST /v1/capabilities/stream': (response) => {
      const short = sound.toString('latin1')
        .replaceAll(/"(duration|timestamp)_seconds":\d/g, '"$1_seconds":0')
      response.end(Buffer.from(short, 'latin1'))
    }
  })
  const given = { plugins: [tts], cwd, terminal: true, env: { PATH: `${join(cwd, 'bin')}:/usr/bin:/bin` } }
  const words = ['say', 'x', '--url', node.url]
  const ran = await cli(words, given)
  t.match(ran, { status: 0, out: '' })
  t.match(ran.err, /no sound device; written to speech\.mp3: 15 bytes of MP3\n$/)
  t.notMatch(ran.err, /ALSA/)
  t.equal(readFileSync(join(cwd, 'speech.mp3'), 'utf8'), 'MP3-one MP3-two')
  await gone(join(cwd, 'bin'))
  rmSync(join(cwd, 'bin/pids'))
  const interrupt = new AbortController()
  const over = cli(words, { ...given, signal: interrupt.signal })
  while (!existsSync(join(cwd, 'bin/pids'))) await sleep(10)
  interrupt.abort()
  t.match(await over, { status: 130 })
  await gone(join(cwd, 'bin'))
})

t.test('players are tried in order', async (t) => {
  const folder = t.testdir({ a: { mpg123: '' }, b: { ffplay: '', notes: '' }, c: { mpv: '' } })
  for (const file of ['a/mpg123', 'b/ffplay']) chmodSync(join(folder, file), 0o755)
  const check = (path: string, expected: string | undefined): void => {
    t.equal(findPlayer(path)?.command, expected, path)
  }
  check(`${folder}/a`, 'mpg123')
  check(`${folder}/a:${folder}/b`, 'ffplay')
  check(`${folder}/c`, undefined)
  check('', undefined)
})
