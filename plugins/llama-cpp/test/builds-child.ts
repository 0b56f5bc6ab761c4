/** Runs `svc engine add` in a child process, for builds-crash.test.ts. */
import { engine } from './builds-kit.js'

const [home, ...words] = process.argv.slice(2) as [string, ...string[]]
const { status, err } = await engine(home, words)
process.stderr.write(err)
process.exitCode = status
