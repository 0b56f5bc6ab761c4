import { spawnSync } from 'node:child_process'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folder, full, root } from './node/kit.js'

const unit = 'docs/deploy/svc.service'
const units = ['svc.service', 'svc-relay.service']
const answers = (...[tool, ...words]: [string, ...string[]]): boolean => spawnSync(tool, words).status === 0
const engine = ['podman', 'docker'].find((tool) => answers(tool, 'info'))

t.test('the unit says what the program needs', (t) => {
  const text = readFileSync(join(root, unit), 'utf8')
  t.match(text, /^ExecStart=\/opt\/svc\/node_modules\/\.bin\/svc up --home \/var\/lib\/svc$/m)
  t.match(text, /^TimeoutStopSec=20$/m)
  t.end()
})

const noSystemd = answers('systemd-analyze', '--version') ? false : 'no systemd here'
t.test('systemd finds nothing wrong with the units', { skip: noSystemd }, (t) => {
  for (const name of units) {
    const copy = join(folder(t), name)
    copyFileSync(join(root, 'docs/deploy', name), copy)
    const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', copy], { encoding: 'utf8' })
    // The program and its user are not installed on the machine of the tests.
    const wrong = stderr.split('\n').filter((line) => line.includes(name) &&
      !/is not executable|Failed to resolve user/.test(line))
    t.same(wrong, [], name)
  }
  t.end()
})

const noEngine = engine === undefined ? 'no podman or docker that answers' : false
const noBuild = full ? noEngine : 'only in the long form'
t.test('the container builds and tells its version', { skip: noBuild, timeout: 1_200_000 }, (t) => {
  const built = spawnSync(engine!, ['build', '-q', '-f', 'docs/deploy/Containerfile', '-t', 'svc-test', '.'],
    { cwd: root, encoding: 'utf8' })
  t.equal(built.status, 0, built.stderr)
  const said = spawnSync(engine!, ['run', '--rm', 'svc-test', '--version'], { encoding: 'utf8' })
  t.match(said.stdout, /^\d+\.\d+\.\d+/)
  t.end()
})
