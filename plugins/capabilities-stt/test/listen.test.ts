import t from 'tap'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cli } from '../../../kernel/test/cli-helpers.js'
import plugin from '../index.js'
import { start } from './kit.js'

t.test('a recording, and the microphone', async (t) => {
  const { rig, tasks } = await start(t)
  const url = await rig.listen()
  const cwd = t.testdir({
    'a.mp3': 'x'.repeat(70_000),
    bin: { arecord: '#!/bin/sh\nhead -c 64000 /dev/zero\n' },
    broken: { arecord: '#!/bin/sh\necho "no soundcards found" >&2\nexit 1\n' },
    none: {}
  })
  for (const folder of ['bin', 'broken']) chmodSync(join(cwd, folder, 'arecord'), 0o755)
  const env = (folder: string) => ({ PATH: `${join(cwd, folder)}:/usr/bin:/bin` })
  const listen = async (words: string, folder = 'none') =>
    await cli(['listen', ...words.split(' ').filter(Boolean), '--url', url],
      { plugins: [plugin], cwd, env: folder === 'none' ? { PATH: join(cwd, 'none') } : env(folder) })
  const rows: [words: string, folder: string, status: number, out: string | RegExp, err: RegExp][] = [
    ['a.mp3', 'none', 0, 'Hello.\n', /^$/],
    ['a.mp3 --format srt', 'none', 0, /^1\n00:00:00,000 --> /, /^$/],
    ['a.mp3 -o a.vtt --language en', 'none', 0, '', /^$/],
    ['a.mp3 --translate --model acme/whisper', 'none', 0, 'Hello.\n', /^$/],
    ['', 'bin', 0, 'Hello.\n', /^$/],
    ['', 'broken', 1, '', /no soundcards found/],
    ['', 'none', 2, '', /no recorder found \(parecord, arecord, rec\)/],
    ['--format srt', 'bin', 2, '', /for the microphone the format is text/],
    ['b.mp3', 'none', 2, '', /cannot read b\.mp3/],
    ['a.mp3 --format doc', 'none', 2, '', /the formats are text, srt/]
  ]
  for (const [words, folder, status, out, err] of rows) {
    t.match(await listen(words, folder), { status, out, err }, words)
  }
  t.match(readFileSync(join(cwd, 'a.vtt'), 'utf8'), /^WEBVTT\n\n00:00:00\.000 --> /)
  t.match(tasks.map(({ bytes }) => bytes).slice(0, 5), [70_000, 70_000, 70_000, 70_000, 64_000])
  t.match(tasks.map(({ task }) => task.payload), [
    { format: 'file' }, {}, { language: 'en' }, { task: 'translate' },
    { format: 'pcm', live: true, sample_rate: 16_000 }
  ])
})
