import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { binaryProblem, checkOverrides, overrideVariable } from '../machine/backends.js'

const uid = process.getuid?.() ?? 0
const folder = t.testdir({})

function file (name: string, mode: number): string {
  const path = join(folder, name)
  writeFileSync(path, '#!/bin/sh\n')
  chmodSync(path, mode)
  return path
}

function check (name: string, path: string, problem: RegExp | null, user = uid): void {
  t.test(name, async (t) => {
    const found = await binaryProblem(path, user)
    if (problem === null) t.equal(found, null)
    else t.match(found, problem)
  })
}

mkdirSync(join(folder, 'directory'))
const good = file('good', 0o755)
symlinkSync(good, join(folder, 'link'))
symlinkSync(file('writable', 0o777), join(folder, 'bad-link'))
symlinkSync(join(folder, 'nothing'), join(folder, 'dangling'))

check('a file of ours', good, null)
check('private to us', file('private', 0o700), null)
check('a link to it', join(folder, 'link'), null)
check('empty', '', /is empty/)
check('relative', 'bin/llama-server', /not an absolute path/)
check('missing', join(folder, 'nothing'), /does not exist/)
check('a dangling link', join(folder, 'dangling'), /does not exist/)
check('a folder', join(folder, 'directory'), /not a regular file/)
check('a device', '/dev/null', /not a regular file/)
check('not executable', file('text', 0o644), /not executable/)
check('writable by the group', file('group', 0o775), /is writable by others \(mode 775\)/)
check('writable by all', file('all', 0o757), /is writable by others \(mode 757\)/)
check('a link to a writable file', join(folder, 'bad-link'), /is writable by others/)
check('a file behind a file', join(good, 'x'), /cannot be read \(ENOTDIR\)/)
if (uid !== 0) check('of another user', good, /belongs to user/, uid + 1)
check('of root', '/bin/sh', null, 12_345)

const names: [string, string][] = [
  ['llama', 'SVC_LLAMA_SERVER_BIN'],
  ['llama-server', 'SVC_LLAMA_SERVER_BIN'],
  ['my-fast-engine', 'SVC_MY_FAST_ENGINE_SERVER_BIN']
]
for (const [engine, variable] of names) {
  t.test(`the override of ${engine}`, async (t) => { t.equal(overrideVariable(engine), variable) })
}

t.test('every override that is set is looked at, nothing else', async (t) => {
  const found = await checkOverrides(
    {
      SVC_LLAMA_SERVER_BIN: good,
      SVC_OTHER_SERVER_BIN: '/nowhere/x',
      SVC_HOME: '/tmp',
      PATH: '/bin',
      SVC_GONE_SERVER_BIN: undefined
    },
    uid
  )
  t.same(found, [
    { variable: 'SVC_LLAMA_SERVER_BIN', path: good, problem: null },
    { variable: 'SVC_OTHER_SERVER_BIN', path: '/nowhere/x', problem: 'does not exist' }
  ])
})
