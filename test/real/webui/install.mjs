// Installs Open WebUI and the packages that requirements.txt pins into $XDG_CACHE_HOME/svc-test/webui, once:
// node test/real/webui/install.mjs
// 1.7 GiB on disk, 20 s to 3 min.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pythonEnvironment } from '../python.mjs'

/** The program `open-webui`, installed if necessary, or why it is missing. */
export function openWebui () {
  const { folder, missing } =
    pythonEnvironment('webui', fileURLToPath(new URL('requirements.txt', import.meta.url)))
  return folder === undefined ? { missing } : { program: join(folder, 'open-webui') }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { program, missing } = openWebui()
  console.log(program ?? missing)
  process.exitCode = program === undefined ? 1 : 0
}
