import { computed, effect, signal } from '@preact/signals'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = typeof themes[number]

const KEY = 'svc.theme'
function stored (): Theme {
  try {
    return themes.find((one) => one === localStorage.getItem(KEY)) ?? 'system'
  } catch {
    return 'system'
  }
}

export const theme = signal<Theme>(stored())

const dark = matchMedia('(prefers-color-scheme: dark)')
const systemDark = signal(dark.matches)
dark.addEventListener('change', () => { systemDark.value = dark.matches })
export const colours = computed(() => `${theme.value} ${systemDark.value}`)

effect(() => {
  const value = theme.value
  if (value === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = value
  try {
    localStorage.setItem(KEY, value)
  } catch { /* Storage is off: the choice lasts until the page is closed. */ }
})
