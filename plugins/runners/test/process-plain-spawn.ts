/**
 * tap adds its loader to NODE_OPTIONS of every child process, whatever its environment. A runner under test
 * must start as in production, so this removes it. Import it for its side effect.
 */
import { createRequire } from 'node:module'

interface Spawning { env: Record<string, string | undefined> }
interface SpawnHook { addListener (listener: (spawning: Spawning) => void): void }

const hook = createRequire(import.meta.url)('process-on-spawn') as SpawnHook
hook.addListener((spawning) => {
  const isTaps = (name: string): boolean => name === 'NODE_OPTIONS' || name.startsWith('_TAPJS_')
  spawning.env = Object.fromEntries(Object.entries(spawning.env).filter(([name]) => !isTaps(name)))
})
