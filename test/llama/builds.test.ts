/** llama.cpp's real programs, packed like a release, can be installed as a build and work. */
import { execFileSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import * as tar from 'tar'
import { engine, homeAt, nameOf } from '../../plugins/llama-cpp/test/builds-kit.js'
import { ask, folder } from '../../plugins/llama-cpp/test/llama-kit.js'
import { donorPaths } from '../../plugins/llama-cpp/server/binary.js'
import { buildsOf } from '../../plugins/runners/service.js'
import { loaded, programs, skipStories, storyteller } from './kit.js'

t.test('a build of the real programs', { skip: skipStories }, async (t) => {
  const directory = folder(t)
  const archive = join(directory, nameOf('b7'))
  await tar.c({ file: archive, cwd: programs, gzip: { level: 1 }, prefix: 'llama-b7' }, ['.'])
  const home = homeAt(directory, 'http://127.0.0.1:9')
  const added = await engine(home, ['add', 'llama.cpp', '--from', archive, '--backend', 'cpu'])
  t.equal(added.status, 0, added.err)
  const [build] = buildsOf(home, 'llama.cpp')
  const serverBinary = join(build!.folder, 'llama-server')
  const version = (program: string): string => execFileSync(program, ['--version'], { encoding: 'utf8' })
  t.equal(version(serverBinary), version(join(programs, 'llama-server')))
  const library = join(build!.folder, 'libllama.so')
  const inside = (path: string): boolean => realpathSync(path).startsWith(realpathSync(build!.folder))
  if (existsSync(library)) t.ok(inside(library), 'links stay inside')
  const [donor] = await donorPaths({ serverBinary })
  t.ok(existsSync(donor!), 'with the program that lends memory')

  const { session } = await loaded(t, storyteller(), { serverBinary })
  const greedy = { prompt: 'Once upon a time', max_tokens: 20, temperature: 0 }
  t.match((await ask(session, 'completion', greedy)).text, /^, there was a /)
})
