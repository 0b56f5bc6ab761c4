import { createHash } from 'node:crypto'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gitBlobSha1 } from './hub-kit-answers.js'

export const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')

/** Creates a hub cache with one commit, in the layout of the hub's own tools. */
export function cacheOf (
  root: string, files: Record<string, Buffer | string>, commit = 'c'.repeat(40)
): string {
  const model = join(root, 'models--acme--chat')
  for (const [path, content] of Object.entries(files)) {
    const bytes = Buffer.from(content)
    const blob = path.endsWith('.gguf') ? sha256(bytes) : gitBlobSha1(bytes)
    const entry = join(model, 'snapshots', commit, path)
    for (const folder of [join(model, 'blobs'), join(model, 'refs'), dirname(entry)]) {
      mkdirSync(folder, { recursive: true })
    }
    writeFileSync(join(model, 'blobs', blob), bytes)
    symlinkSync(`${'../'.repeat(path.split('/').length + 1)}blobs/${blob}`, entry)
  }
  writeFileSync(join(model, 'refs', 'main'), commit)
  return root
}
