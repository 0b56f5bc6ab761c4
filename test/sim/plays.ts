import { DISTURBANCES } from './plays-disturbances.js'
import { ELECTIONS } from './plays-elections.js'
import { FLAWS } from './plays-flaws.js'
import { SESSIONS } from './plays-sessions.js'
import type { Play } from './scene.js'

export const PLAYS: readonly Play[] = [...FLAWS, ...ELECTIONS, ...SESSIONS, ...DISTURBANCES]
