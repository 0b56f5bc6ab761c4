import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import semver from 'semver'
import t from 'tap'
import ts from 'typescript'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

t.test('an install runs only the scripts of sqlite3, and uses no setting unknown to npm', (t) => {
  interface Lock { packages: Record<string, { hasInstallScript?: boolean, os?: string[] }> }
  const { packages } = JSON.parse(read('package-lock.json')) as Lock
  // onnxruntime-node's install script would download GPU libraries, and esbuild's would look for its binary.
  const run = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript === true)
  t.same(run.map(([path]) => path).filter((path) => path !== ''), ['node_modules/sqlite3'])
  t.same(read('.npmrc').trim().split('\n').map((line) => line.split('=')[0]), ['fund', 'audit'])
  t.end()
})

t.test('llama.cpp is pinned to one version for the CPU of each platform, without GPU builds', (t) => {
  interface Lock { packages: Record<string, { version?: string }> }
  const { packages } = JSON.parse(read('package-lock.json')) as Lock
  const { optionalDependencies } = JSON.parse(read('package.json')) as
    { optionalDependencies: Record<string, string> }
  const platforms = ['linux-arm64', 'linux-x64', 'mac-arm64-metal', 'mac-x64']
  const found = Object.keys(packages).filter((path) => /node-llama-cpp/.test(path))
  t.same(found, platforms.map((name) => `node_modules/@node-llama-cpp/${name}`))
  const [version] = new Set(found.map((path) => packages[path]!.version))
  for (const name of platforms) t.equal(optionalDependencies[`@node-llama-cpp/${name}`], version)
  t.end()
})

// light-my-request is a direct dependency only to pin its version: later ones depend on a cookie package that
// requires Node 22, and npm ignores overrides in a package installed as a dependency, as svc may be.
t.test('no dependency of svc requires a newer Node than svc does', (t) => {
  interface Lock { packages: Record<string, { dev?: boolean, engines?: { node?: string } }> }
  const { packages } = JSON.parse(read('package-lock.json')) as Lock
  const least = '20.19.0'
  const newer = Object.entries(packages).filter(([, { dev, engines }]) => dev !== true &&
    engines?.node !== undefined && !semver.satisfies(least, engines.node))
  t.same(newer.map(([path, { engines }]) => `${path}: ${engines?.node ?? ''}`), [])
  t.end()
})

t.test('the build needs no optional package', (t) => {
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.build.json'), {}, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic ({ messageText }) { throw new Error(String(messageText)) }
  })!
  const { optionalDependencies, peerDependencies } = JSON.parse(read('package.json')) as
    Record<string, Record<string, string>>
  const optional = Object.keys({ ...optionalDependencies, ...peerDependencies })
  t.ok(existsSync(join(root, 'plugins')) && config.fileNames.length > 100)
  t.same(config.fileNames.filter((path) => ts.preProcessFile(ts.sys.readFile(path)!).importedFiles
    .some(({ fileName }) => optional.includes(fileName))), [])
  t.end()
})
