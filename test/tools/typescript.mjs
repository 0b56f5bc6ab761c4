// Loaded into every test file: Node runs TypeScript from a cache of compiled files, and a child process
// starts as in production.
import { createRequire, register } from 'node:module'

register('./typescript-hooks.mjs', import.meta.url)

// Under `npx tap run`, tap gives every process that a test starts its loader and variables, even if the test
// sets the environment. A node under test must start as in production.
if (process.env['_TAPJS_PROCESSINFO_CWD_'] !== undefined) {
  const ofTap = /"?--import=\S*\/@tapjs\/[^\s"]*"?/g
  createRequire(import.meta.url)('process-on-spawn').addListener((spawning) => {
    const { NODE_OPTIONS: all = '', ...rest } = spawning.env
    const options = all.replace(ofTap, '').trim()
    const env = Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('_TAPJS_')))
    spawning.env = options === '' ? env : { ...env, NODE_OPTIONS: options }
  })
}
