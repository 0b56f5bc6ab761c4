// Loaded into every test file (see .taprc): TypeScript through tsx. The loader that tap brings, which
// TAP_TYPE_STRIP_ONLY=1 there leaves out, takes two seconds of processor time more for each file.
import 'tsx/esm'
import { createRequire } from 'node:module'

// tap gives every process that a test starts a loader and variables of its own, whatever the test says of its
// environment. A node under test must be as in real life, and starts in half the time without them.
const ofTap = /"?--import=\S*\/@tapjs\/[^\s"]*"?/g
createRequire(import.meta.url)('process-on-spawn').addListener((spawning) => {
  const { NODE_OPTIONS: all = '', ...rest } = spawning.env
  const options = all.replace(ofTap, '').trim()
  const env = Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('_TAPJS_')))
  spawning.env = options === '' ? env : { ...env, NODE_OPTIONS: options }
})
