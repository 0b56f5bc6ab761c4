import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packageRoot } from '../../../kernel/boot/package.js'
import { cli as run } from '../../../kernel/test/cli-helpers.js'
import packages from '../index.js'
import type { Ran } from '../../../kernel/test/cli-helpers.js'

const cli = async (words: string[], cwd: string): Promise<Ran> =>
  await run(['plugin', ...words], { plugins: [packages], cwd })

t.test('verbs that work on a home are refused with the address of another node', async (t) => {
  const home = join(t.testdir({}), 'home')
  for (const words of ['rm x', 'install ./x', 'verify']) {
    const url = 'http://127.0.0.1:1'
    const ran = await cli([...words.split(' '), '--home', home, '--url', url], t.testdirName)
    t.match(ran, { status: 2, err: ` works on the home ${home}, and no node of it has the address ${url}` })
  }
  t.notOk(existsSync(home))
})

t.test('plugin new writes a project whose test passes', async (t) => {
  const cwd = t.testdir({})
  const made = await cli(['new', 'demo-echo', '--home', join(cwd, 'home')], cwd)
  t.equal(made.status, 0, made.err)
  const folder = join(cwd, 'demo-echo')
  t.match(made.out, /plugins:\n {4}demo-echo:\n {6}module: "\.\.\/demo-echo\/index\.js"/)
  const { devDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as
    { devDependencies: { svc: string } }
  t.equal(realpathSync(resolve(folder, devDependencies.svc.replace('file:', ''))), packageRoot())
  const check = async (words: string[], status: number, err: RegExp): Promise<void> => {
    t.match(await cli([...words, '--home', cwd], cwd), { status, err }, words.join(' '))
  }
  await check(['new', 'demo-echo'], 1, /is not empty/)
  await check(['new', 'Demo'], 2, /small letters/)
  await check(['new', 'packages'], 2, /ships with svc/)
  const kit = join(packageRoot(), 'dist/kernel/testing/index.js')
  if (!existsSync(kit)) return t.fail('compile first: npm run prepare')
  const { NODE_OPTIONS: _, ...env } = process.env
  const ran = spawnSync(process.execPath, ['test/index.test.js'], { cwd: folder, env, encoding: 'utf8' })
  t.equal(ran.status, 0, ran.stdout + ran.stderr)
  t.match(ran.stdout, /^ok 3 - /m)
  const own = readFileSync(join(packageRoot(), 'package.json'), 'utf8')
  const { devDependencies: { tap } } = JSON.parse(own) as { devDependencies: { tap: string } }
  t.match(readFileSync(join(folder, 'package.json'), 'utf8'), `"tap": "^${tap}"`)
})
