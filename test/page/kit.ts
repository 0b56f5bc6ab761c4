/** The web page in a real Chromium, against real nodes. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import type { Test } from 'tap'
import type { TestNode } from '../node/kit.js'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

function findChromium (): string | undefined {
  const named = process.env['SVC_TEST_CHROMIUM']
  if (named !== undefined) return named
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch { return false }
  })
}

const executablePath = findChromium()
/** Skip reason of the page tests; false if they can run. */
export const skip = executablePath === undefined &&
  'needs Chromium (Debian: apt install chromium), or its path in SVC_TEST_CHROMIUM'

/** A browser that closes with the test; `more`: additional arguments. */
export async function openBrowser (t: Test, more: readonly string[] = []): Promise<Browser> {
  const args = [
    // Chromium refuses to run as root inside its sandbox; containers have little shared memory.
    ...process.getuid?.() === 0 ? ['--no-sandbox'] : [], '--disable-dev-shm-usage',
    '--autoplay-policy=no-user-gesture-required', ...more
  ]
  const browser = await chromium.launch({ ...executablePath === undefined ? {} : { executablePath }, args })
  t.teardown(async () => { await browser.close() })
  return browser
}

export interface View {
  page: Page
  /** Forbidden behaviour of the page: exceptions, refused scripts, console errors. */
  problems: string[]
  /** Opens a part of the page, such as `models`. */
  go (part: string): Promise<void>
}

export interface ViewOptions {
  /** Typed into the page's own form. */
  token?: string
  width?: number
  height?: number
  colours?: 'light' | 'dark'
  part?: string
  /** Expected console errors: a killed node, a refused request. */
  expected?: RegExp
  /** Text that the open page shows; the state of the cluster by default. */
  shows?: string
}

/** The browser reports a refused or failed request on the console. */
const OF_REQUESTS = /^Failed to load resource|WebSocket connection to/

/** Opens the page of a node and waits until it shows the cluster. */
export async function openPage (
  t: Test, browser: Browser, at: Pick<TestNode, 'url'>, options: ViewOptions = {}
): Promise<View> {
  const { width = 1280, height = 900, colours = 'light', part = 'cluster', expected } = options
  const { shows = '.pulse .badge' } = options
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: colours })
  t.teardown(async () => { await context.close() })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => { problems.push(`exception: ${error.message}`) })
  page.on('console', (message) => {
    const text = message.text()
    if (message.type() !== 'error' || OF_REQUESTS.test(text) || expected?.test(text) === true) return
    problems.push(`console: ${text}`)
  })
  await page.goto(`${at.url}/#/${part}`)
  await page.locator(shows).first().waitFor()
  const view: View = {
    page, problems,
    go: async (to) => { await page.goto(`${new URL(page.url()).origin}/#/${to}`) }
  }
  if (options.token !== undefined) await enterToken(view, options.token)
  return view
}

export async function enterToken ({ page }: View, token: string): Promise<void> {
  await page.getByRole('button', { name: 'Enter a token' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel(/^Token of/).fill(token)
  await dialog.getByRole('button', { name: 'Use it' }).click()
  await page.getByRole('button', { name: 'Token in use' }).waitFor()
}
